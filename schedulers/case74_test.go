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

// The documented list of reasons is that of the code: all filters, and all that is declared
// beside them.
func TestReasonsAreDocumented(t *testing.T) {
	codes := map[string]bool{string(cellstate.ReasonQuota): true}
	for _, f := range place.Filters() {
		codes[f.Name()] = true
	}
	declared := regexp.MustCompile(`(?m)^(?:const |\t)Reason\w+\s*= "(\w+)"`)
	for _, dir := range []string{".", "place", "batch", "service", "ml", "system"} {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				codes[string(m[1])] = true
			}
		}
	}
	page, err := os.ReadFile("../docs/schedulers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Reasons\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` ").FindAllStringSubmatch(section, -1) {
		documented[m[1]] = true
	}
	if !maps.Equal(codes, documented) {
		t.Errorf("docs/schedulers.md lists %v; the code has %v", slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(codes)))
	}
}
