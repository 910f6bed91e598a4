package schedulers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// Two schedulers that evict at once take no more of a job at a time than its disruption budget
// allows, and tell who waits for it why; when what was evicted runs again elsewhere, it is the
// next one's turn.
func TestEvictionsKeepToABudget(t *testing.T) {
	for name, budget := range map[string]*ohmv1.Disruption{"number": {MaxUnavailable: 1}, "share": {MaxUnavailablePercent: 34}} {
		most := map[string]int{"number": 1, "share": 2}[name]
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				const tasks = 4
				for i := range tasks {
					cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000, Attributes: map[string]string{"old": "yes"}})
				}
				for _, name := range []string{"x", "y"} {
					cell.Run(name, "a", batch.New(), hasty)
				}
				cell.Run("service", "a", service.New(), hasty)
				cell.Submit(celltest.Job{Name: "web", Kind: "service", Count: tasks, CPU: 4000, Precedence: 50, Disruption: budget})
				cell.Until("web is placed", placed("web", tasks))
				for i := range tasks {
					cell.Status(slotOf("web", i), task.Running)
				}
				for _, name := range []string{"x", "y"} {
					cell.Submit(celltest.Job{Name: name, Scheduler: name, Count: 2, CPU: 4000, Precedence: celltest.Production,
						Constraints: []*ohmv1.Constraint{{Key: "old", Op: ohmv1.Operator_OPERATOR_EXISTS}}})
				}
				both := func(s *cellstate.Snapshot) int { return schedtest.Placed(s, "x") + schedtest.Placed(s, "y") }
				s := cell.Until("the budget is spent, and who waits knows", func(s *cellstate.Snapshot) bool {
					spent := both(s) == most
					for _, name := range []string{"x", "y"} {
						w := schedtest.Word(s, name)
						spent = spent && (schedtest.Placed(s, name) == 2 || w != nil && w.GetGroups()[0].GetNoVictimsCode() == "Budget")
					}
					return spent
				})
				down := 0
				for _, task := range s.Job(celltest.Name("web")).Tasks {
					if task.Placement.GetEvictedBy() != "" {
						down++
					}
				}
				if down != most {
					t.Fatalf("%d tasks give way at once; want %d", down, most)
				}
				for _, name := range []string{"x", "y"} {
					if schedtest.Placed(s, name) == 2 {
						continue
					}
					want := fmt.Sprintf("the disruption budget of job web is used up: %d of at most %d tasks of its group main are down", most, most)
					if got := schedtest.Word(s, name); !strings.Contains(got.GetGroups()[0].GetNoVictims(), want) || !strings.Contains(got.GetMessage(), want) {
						t.Errorf("%s waits because %v; want %q", name, got, want)
					}
				}
				// They go, and come again elsewhere: then the others' turn comes.
				for n := 0; both(cell.Snapshot()) < 4; n++ {
					for i := range tasks {
						if p := cell.Snapshot().Job(celltest.Name("web")).Task(slotOf("web", i)).Placement; p.GetEvictedBy() != "" {
							cell.End(p.Slot, task.Preempted)
						}
					}
					for i := range most {
						cell.Up(celltest.Node{Name: fmt.Sprintf("more%d-%d", n, i), CPU: 4000})
					}
					cell.Until("web is whole", placed("web", tasks))
					had := both(cell.Snapshot())
					for i := range tasks {
						slot := slotOf("web", i)
						if row := cell.Snapshot().Job(celltest.Name("web")).Task(slot); row.Status == nil && row.Placement.GetEvictedBy() == "" {
							cell.Status(slot, task.Running)
						}
					}
					cell.Until("the next one has its way", func(s *cellstate.Snapshot) bool { return both(s) > had || both(s) == 4 })
				}
			})
		})
	}
}
