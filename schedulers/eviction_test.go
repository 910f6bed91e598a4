package schedulers_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// Field case 20: who comes with still higher precedence while a victim takes its time ends the
// reservation of the one before, which is planned anew; nothing of it stays behind.
func TestCase20AHigherOneDuringTheGrace(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		cell.Run("batch", "a", batch.New(), hasty)
		cell.Submit(celltest.Job{Name: "p0", CPU: 2000})
		cell.Until("p0 is placed", placed("p0", 1))
		cell.Status(slotOf("p0", 0), task.Running)
		cell.Submit(celltest.Job{Name: "p1", CPU: 3000, Precedence: 100})
		cell.Until("p1 has p0's room", placed("p1", 1))
		cell.Submit(celltest.Job{Name: "p2", CPU: 1500, Precedence: 200})
		s := cell.Until("p2 is placed and p1 waits", func(s *cellstate.Snapshot) bool {
			return placed("p2", 1)(s) && placed("p1", 0)(s) && waits("p1")(s)
		})
		heir := s.Job(celltest.Name("p2")).Task(slotOf("p2", 0)).Placement
		if victims := evicted(s, "n1"); len(victims) != 1 || victims[0] != slotOf("p0", 0) {
			t.Errorf("victims %v; want only p0's, for whoever is there now", victims)
		}
		if by := s.Job(celltest.Name("p0")).Task(slotOf("p0", 0)).Placement.GetEvictedBy(); by != heir.GetTxn() {
			t.Errorf("p0 gives way to %s; want %s, p2's", by, heir.GetTxn())
		}
		cell.End(slotOf("p0", 0), task.Preempted)
		cell.Until("p0 is back in what p2 leaves: nothing is reserved", placed("p0", 1))
	})
}

// Field case 25: a job without retries that was evicted twice is not the worse for it.
func TestCase25EvictionsSpendNothing(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		cell.Run("batch", "a", batch.New(), hasty)
		cell.Run("service", "a", service.New(), hasty)
		cell.Submit(celltest.Job{Name: "low", CPU: 4000})
		for i := range 2 {
			cell.Until("low is placed", placed("low", 1))
			cell.Status(slotOf("low", 0), task.Running)
			high := fmt.Sprintf("high%d", i)
			cell.Submit(celltest.Job{Name: high, Kind: "service", CPU: 4000, Precedence: 200})
			cell.Until("high is placed", placed(high, 1))
			cell.End(slotOf("low", 0), task.Preempted)
			cell.Mark(celltest.Name(high), func(j *ohmv1.Job) { j.Stopped = true })
			cell.Release(slotOf(high, 0), task.Stopped)
		}
		s := cell.Until("low is placed a third time", placed("low", 1))
		if got := s.Job(celltest.Name("low")).Task(slotOf("low", 0)).Placement.GetAttempt(); got != 3 {
			t.Errorf("attempt %d; want 3", got)
		}
		cell.Release(slotOf("low", 0), task.Succeeded)
		s = cell.Until("low is over", func(s *cellstate.Snapshot) bool { return schedtest.Finished(s, "low") })
		row := s.Job(celltest.Name("low"))
		if d := reconcile.Job(s, row, time.Now()); d.State != reconcile.Succeeded || d.Counts[0].GetFailed() != 0 {
			t.Errorf("low is %s with %v", d.State, d.Counts)
		}
	})
}

// Field case 26: why there is no node is the same, whether others may be evicted or not.
func TestCase26ReasonsDoNotHideBehindEviction(t *testing.T) {
	reasons := func(t *testing.T, limits schedulers.EvictionLimits) (group *ohmv1.GroupWaiting) {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			cell.Up(celltest.Node{Name: "n1", CPU: 4000}, celltest.Node{Name: "n2", CPU: 4000})
			cell.Run("batch", "a", batch.New(), func(c *schedulers.Config) { c.Evictions = limits })
			cell.Submit(celltest.Job{Name: "low", CPU: 4000})
			cell.Until("low is placed", placed("low", 1))
			cell.Submit(celltest.Job{Name: "gpu", CPU: 1000, GPUs: 1, Precedence: 100})
			s := cell.Until("gpu waits", waits("gpu"))
			group = schedtest.Word(s, "gpu").GetGroups()[0]
		})
		return group
	}
	on, off := reasons(t, schedulers.EvictionLimits{MinRun: -1}), reasons(t, schedulers.EvictionLimits{PerMinute: -1})
	if fmt.Sprint(on.GetReasons()) != fmt.Sprint(off.GetReasons()) {
		t.Errorf("with evictions %v; without %v", on.GetReasons(), off.GetReasons())
	}
	if on.GetNoVictims() == "" || off.GetNoVictims() != "" {
		t.Errorf("no victims because %q and, without evictions, %q; want a reason only with them", on.GetNoVictims(), off.GetNoVictims())
	}
}

// A gang evicts for all that it needs, in its one transaction, or nobody at all.
func TestGangsEvictWholeOrNotAtAll(t *testing.T) {
	for _, c := range []struct {
		tasks, victims int
	}{{3, 2}, {5, 0}} {
		t.Run(fmt.Sprint(c.tasks), func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				nodes := []cellstate.NodeName{"n1", "n2", "n3"}
				for _, n := range nodes {
					cell.Up(celltest.Node{Name: string(n), CPU: 4000})
				}
				cell.Up(celltest.Node{Name: "n4", CPU: 1000})
				cell.Run("batch", "a", batch.New(), hasty)
				cell.Run("ml", "a", ml.New(), hasty)
				cell.Submit(celltest.Job{Name: "low", CPU: 3000, Count: 2})
				cell.Until("low is placed", placed("low", 2))
				cell.Submit(celltest.Job{Name: "gang", Kind: "ml", Gang: true, CPU: 4000, Count: c.tasks, Precedence: 100})
				s := cell.Until("the gang has its answer", func(s *cellstate.Snapshot) bool {
					return schedtest.Placed(s, "gang") > 0 || schedtest.Word(s, "gang") != nil
				})
				victims := 0
				for _, n := range nodes {
					victims += len(evicted(s, n))
				}
				if victims != c.victims {
					t.Errorf("%d victims; want %d", victims, c.victims)
				}
				if got := schedtest.Placed(s, "gang"); c.victims > 0 && got != c.tasks || c.victims == 0 && got > 0 {
					t.Errorf("%d tasks of the gang are placed", got)
				}
			})
		})
	}
}

// Whatever jobs there are, evictions come to an end: each victim gives way to a higher
// precedence, and agents end it at once. Time passes in a bubble.
func TestEvictionsComeToRest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type job struct{ cpu, memory, precedence, count int }
		var jobs []job
		for range rapid.IntRange(2, 8).Draw(rt, "jobs") {
			jobs = append(jobs, job{rapid.IntRange(1, 4).Draw(rt, "cpu"), rapid.IntRange(1, 4).Draw(rt, "memory"), 50 * rapid.IntRange(0, 3).Draw(rt, "precedence"), rapid.IntRange(1, 3).Draw(rt, "count")})
		}
		tasks := 0
		synctest.Test(t, func(t *testing.T) {
			cell := schedtest.New(t)
			cell.Up(celltest.Node{Name: "n1", CPU: 4000, Memory: 4 << 30}, celltest.Node{Name: "n2", CPU: 4000, Memory: 4 << 30})
			for _, name := range []string{"s1", "s2"} {
				cell.Run(name, "a", batch.New(), hasty, func(c *schedulers.Config) { c.Evictions.PerTask = -1 })
			}
			for i, j := range jobs {
				tasks += j.count
				cell.Submit(celltest.Job{Name: fmt.Sprintf("j%d", i), Scheduler: fmt.Sprintf("s%d", i%2+1), CPU: int64(j.cpu) * 1000, Memory: int64(j.memory) << 30, Precedence: j.precedence, Count: j.count})
			}
			evictions := 0
			for quiet := 0; quiet < 5; quiet++ {
				time.Sleep(30 * time.Second) // of the bubble
				for _, n := range []cellstate.NodeName{"n1", "n2"} {
					for _, slot := range evicted(cell.Snapshot(), n) {
						cell.End(slot, task.Preempted)
						evictions, quiet = evictions+1, 0
					}
				}
				// A task makes way at most once for each one of those above it.
				if evictions > tasks*tasks {
					t.Fatalf("%d evictions among %d tasks, and no end", evictions, tasks)
				}
			}
		})
	})
}
