package storetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/storetest"
)

// plantedBug names, in the environment of a test process of its own, the bug under
// which TestLaws runs there: a law that fails must not fail the test that expects it.
const plantedBug = "STORETEST_PLANTED_BUG"

// planted is an honest store behind a bug.
type planted struct {
	*memstore.Store
	plant plant
}

// Commit sends what the bug makes of the writes: the first part of each in one request,
// then the second of each that has one, and so on.
func (p planted) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	now, err := p.Load(ctx)
	if err != nil {
		return cellstate.Outcome{}, err
	}
	parts, most := make([][]cellstate.Write, len(writes)), 1
	for i, w := range writes {
		parts[i] = p.plant(now, w)
		most = max(most, len(parts[i]))
	}
	out := cellstate.Outcome{Applied: make([]cellstate.Revision, len(writes))}
	for round := range most {
		var request []cellstate.Write
		var of []int
		for i := range parts {
			if round < len(parts[i]) {
				request, of = append(request, parts[i][round]), append(of, i)
			}
		}
		got, err := p.Store.Commit(ctx, request...)
		if err != nil {
			return cellstate.Outcome{}, err
		}
		out.Revision = got.Revision
		for j, at := range got.Applied {
			if i := of[j]; round == 0 || out.Applied[i] != 0 { // a write applied if all its parts did
				out.Applied[i] = at
			}
		}
	}
	return out, nil
}

// All laws hold without a bug. With one, this is what TestPlantedBugs runs and expects to fail.
func TestLaws(t *testing.T) {
	honest := edit(func(*cellstate.Snapshot, *cellstate.Write) {})
	under := bug{plant: honest}
	if name := os.Getenv(plantedBug); name != "" {
		i := slices.IndexFunc(bugs(), func(b bug) bool { return b.name == name })
		if i < 0 {
			t.Fatalf("there is no bug %q", name)
		}
		under = bugs()[i]
	}
	storetest.Run(t, func(*testing.T) cellstate.Store { return planted{memstore.New(), under.plant} })
}

// Each planted bug is caught by the laws that are about it, and leaves one nearby alone, so
// that the bug is as small as its name says.
func TestPlantedBugs(t *testing.T) {
	for _, b := range bugs() {
		t.Run(b.name, func(t *testing.T) {
			got, output := prove(t, b.name, append(slices.Clone(b.fails), b.holds))
			says := func(how, law, want string) {
				t.Run(how+" "+law, func(t *testing.T) {
					if got[underscored(law)] != want {
						t.Errorf("the law said %q, want %s:\n%s", got[underscored(law)], want, output)
					}
				})
			}
			for _, law := range b.fails {
				says("is caught by", law, "FAIL")
			}
			says("leaves alone", b.holds, "PASS")
		})
	}
}

// said is what a verbose test process says of each law.
var said = regexp.MustCompile(`(?m)^ +--- (PASS|FAIL): TestLaws/(.+) \([0-9.]+s\)$`)

// prove runs some laws under a bug in a process of their own, which must end as one does
// of which tests have failed, not by a panic. It returns what the process said of each
// law, and all of its output.
func prove(t *testing.T, bug string, laws []string) (map[string]string, []byte) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.timeout=1m", "-test.run="+pattern(laws))
	cmd.Env = append(os.Environ(), plantedBug+"="+bug)
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("laws under the bug: %v, want exit status 1\n%s", err, output)
	}
	got := map[string]string{}
	for _, m := range said.FindAllSubmatch(output, -1) {
		got[string(m[2])] = string(m[1])
	}
	return got, output
}

// pattern selects exactly these laws of TestLaws.
func pattern(laws []string) string {
	var out []string
	for _, law := range laws {
		path := "^TestLaws$"
		for part := range strings.SplitSeq(law, "/") {
			path += "/^" + regexp.QuoteMeta(part) + "$"
		}
		out = append(out, path)
	}
	return strings.Join(out, "|")
}

// underscored is a law's name as the testing package writes it.
func underscored(law string) string { return strings.ReplaceAll(law, " ", "_") }
