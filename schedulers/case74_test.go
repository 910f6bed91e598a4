package schedulers_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// short counts in one of its explanations a node less than there are.
type short struct{ schedtest.FirstFit }

func (p short) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	out, err := p.FirstFit.Schedule(ctx, in)
	for i := range out.Unplaced {
		out.Unplaced[i].Reasons = out.Unplaced[i].Reasons[1:]
	}
	return out, err
}

// Field case 74: nine nodes refuse a task for four known reasons. The stored word counts
// each of them once, by every policy and by one that forgets some.
func TestCase74ReasonsAddUp(t *testing.T) {
	const four = "Constraint/zone:3 DiskFull/:1 Resources/cpu:2 Resources/memory:3"
	for _, c := range []struct {
		kind   string
		policy schedulers.Scheduler
		want   string // empty: that it adds up is all that is known
	}{
		{"batch", batch.New(), four},
		{"service", service.New(), four},
		{"ml", ml.New(), four},
		{"batch", schedtest.FirstFit{}, ""},
		{"batch", short{}, ""},
	} {
		t.Run(fmt.Sprintf("%T", c.policy), func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				east, west := map[string]string{"zone": "east"}, map[string]string{"zone": "west"}
				for i, n := range []celltest.Node{
					{CPU: 8000, Attributes: west}, {CPU: 8000, Attributes: west}, {CPU: 8000, Attributes: west},
					{CPU: 1000, Attributes: east}, {CPU: 2000, Attributes: east},
					{CPU: 8000, Memory: 1 << 30, Attributes: east}, {CPU: 8000, Memory: 2 << 30, Attributes: east}, {CPU: 8000, Memory: 1 << 30, Attributes: east},
					{CPU: 8000, Attributes: east, DiskFull: "1% free"},
				} {
					n.Name = fmt.Sprintf("n%d", i+1)
					cell.Up(n)
				}
				cell.Run(c.kind, "a", c.policy)
				cell.Submit(celltest.Job{Name: "j", Kind: c.kind, CPU: 4000, Memory: 4 << 30, Constraints: []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"east"}}}})
				g := schedtest.Word(cell.Until("it waits", waits("j")), "j").GetGroups()[0]
				sum, got := int32(0), []string(nil)
				for _, r := range g.GetReasons() {
					sum += r.GetNodes()
					got = append(got, fmt.Sprintf("%s/%s:%d", r.GetReason(), r.GetDimension(), r.GetNodes()))
					if r.GetDimension() == "memory" && c.want != "" && !strings.Contains(r.GetDetail(), "of 4Gi on node n7") {
						t.Errorf("the nearest miss in memory is %q; want n7's", r.GetDetail())
					}
				}
				slices.Sort(got)
				if g.GetNodes() != 9 || sum != 9 || c.want != "" && strings.Join(got, " ") != c.want {
					t.Errorf("of %d nodes %d are counted: %s; want %s", g.GetNodes(), sum, got, c.want)
				}
			})
		})
	}
}

// docs/codes.md lists every code that programs may come upon, section by section, and no other.
func TestCodesAreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := []string{string(cellstate.ReasonQuota)}
	for _, f := range place.Filters() {
		reasons = append(reasons, f.Name())
	}
	const untyped = `(?m)^(?:const |\t)%s\w+\s*= "(\w+)"`
	for _, c := range []struct {
		section, files, declared string
		more                     []string
	}{
		{"Why a task waits", "{.,place,batch,service,ml,system}/*.go", fmt.Sprintf(untyped, "Reason"), reasons},
		{"Why nothing gives way", "scheduler.go", fmt.Sprintf(untyped, "NoVictims"), nil},
		{"What a transaction lost over", "../cellstate/*.go", `(?m)^\tReason\w+\s+Reason = "(\w+)"`, nil},
		{"What became of a decision", "../cellstate/txn.go", fmt.Sprintf(untyped, "Fate"), nil},
		{"How an attempt ended", "../pkg/task/cause.go", fmt.Sprintf(untyped, ""), nil},
	} {
		codes := map[string]bool{}
		for _, code := range c.more {
			codes[code] = true
		}
		for _, file := range filesOf(t, c.files) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(c.declared).FindAllSubmatch(text, -1) {
				codes[string(m[1])] = true
			}
		}
		_, section, _ := strings.Cut(string(raw), "\n## "+c.section+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		documented := map[string]bool{}
		for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` ").FindAllStringSubmatch(section, -1) {
			documented[m[1]] = true
		}
		if len(codes) < 5 || !maps.Equal(codes, documented) {
			t.Errorf("%s: docs/codes.md lists %v; the code has %v", c.section, slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(codes)))
		}
	}
}

// filesOf are those of a pattern, in which {a,b} stands for each.
func filesOf(t *testing.T, pattern string) (files []string) {
	t.Helper()
	patterns := []string{pattern}
	if before, rest, ok := strings.Cut(pattern, "{"); ok {
		within, after, _ := strings.Cut(rest, "}")
		patterns = nil
		for dir := range strings.SplitSeq(within, ",") {
			patterns = append(patterns, before+dir+after)
		}
	}
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}
