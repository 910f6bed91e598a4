package schedulers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// tended is a cell of which the tasks run and end.
type tended struct {
	*schedtest.Cell
	t *testing.T
}

// live are the placements of a namespace that nothing evicts, and their cores.
func live(s *cellstate.Snapshot, namespace string) (all []*cellstate.Placement, milli int64) {
	for j := range s.JobsIn(namespace) {
		for _, task := range j.Tasks {
			if p := task.Placement; p != nil && p.GetEvictedBy() == "" {
				all = append(all, p)
				milli += p.GetResources().GetCpuMilli()
			}
		}
	}
	return all, milli
}

// tend does once what agents do: what is evicted ends, everything else runs, and ends when it
// has for so long; 0: it goes on.
func (c tended) tend(runs time.Duration) {
	c.t.Helper()
	s := c.Snapshot()
	for n := range s.Nodes() {
		var used int64
		for _, p := range n.Placements() {
			if p.GetEvictedBy() == "" {
				used += p.GetResources().GetCpuMilli()
			}
		}
		if used > n.Facts.GetCapacity().GetCpuMilli() {
			c.t.Fatalf("%s has %d of %d", n.Name, used, n.Facts.GetCapacity().GetCpuMilli())
		}
		for _, p := range n.Placements() {
			switch {
			case p.GetEvictedBy() != "":
				c.end(s, p, task.Preempted)
			case runs > 0 && time.Since(p.GetTime().AsTime()) >= runs:
				c.end(s, p, task.Exited)
			}
		}
	}
}

// pass lets some time of the bubble pass, and tends the cell meanwhile.
func (c tended) pass(d, runs time.Duration) {
	c.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		c.tend(runs)
	}
}

// end ends an attempt unless it has just been evicted.
func (c tended) end(s *cellstate.Snapshot, p *cellstate.Placement, cause string) {
	status := celltest.StatusOf(p, task.EndState(cause, 0))
	status.Cause = cause
	row := s.Job(p.Slot.JobName()).Task(p.Slot)
	if _, err := c.Store.Commit(context.Background(), cellstate.Write{Records: cellstate.ReleaseRecords(row, status)}); err != nil {
		c.t.Fatal(err)
	}
}

// evictions counts the attempts that were evicted, by namespace.
func evictions(s *cellstate.Snapshot) map[string]int {
	count := map[string]int{}
	for j := range s.Jobs() {
		for _, t := range j.Tasks {
			for _, e := range t.Ended {
				if e.GetStatus().GetCause() == task.Preempted {
					count[j.Name.Namespace]++
				}
			}
		}
	}
	return count
}

// Field case 24 with queues: two equal queues, the first of which has filled the cell. The second
// takes back what is due to it, once, and then all jobs finish; also where the cell cannot be
// halved, and whether the tasks are of one scheduler or of two.
func TestCase24TwoEqualQueues(t *testing.T) {
	for _, c := range []struct {
		name        string
		nodes, each int
		schedulers  []string
		evictions   int
	}{
		{"12 slots", 3, 4, []string{"batch", "batch"}, 6},
		{"12 slots and two schedulers", 3, 4, []string{"batch", "other"}, 6},
		{"11 cores", 1, 11, []string{"batch", "batch"}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				const jobs = 12 // of each queue
				for i := range c.nodes {
					cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: int64(1000 * c.each)})
				}
				cell.Weigh("a", 1)
				cell.Weigh("b", 1)
				cell.Run("batch", "i", batch.New())
				cell.Run("other", "i", batch.New())
				submit := func(n int) {
					for i := range jobs {
						cell.Submit(celltest.Job{Namespace: "ab"[n : n+1], Name: fmt.Sprintf("j%d", i), Scheduler: c.schedulers[n], CPU: 1000, Precedence: celltest.BatchLevel})
					}
				}
				all := tended{cell, t}
				submit(0)
				cell.Until("a has all", func(s *cellstate.Snapshot) bool { l, _ := live(s, "a"); return len(l) == c.nodes*c.each })
				all.pass(20*time.Second, 0) // it has run for long enough
				submit(1)
				over := func(s *cellstate.Snapshot) (n int) {
					for j := range s.Jobs() {
						if len(j.Tasks) > 0 && j.Tasks[0].Placement == nil && j.Tasks[0].Ended[len(j.Tasks[0].Ended)-1].GetStatus().GetState() == task.Succeeded {
							n++
						}
					}
					return n
				}
				all.pass(10*time.Minute, 3*time.Minute)
				s := cell.Snapshot()
				if n := over(s); n != 2*jobs {
					t.Errorf("%d of %d jobs are over", n, 2*jobs)
				}
				schedtest.Audited(t, cell.Store, nil)
				if got := evictions(s); got["a"] != c.evictions || got["b"] != 0 {
					t.Errorf("evicted were %v, want %d of a", got, c.evictions)
				}
			})
		})
	}
}

// Field case 91: what is due to two queues is taken back from a third one at once, and no victim
// counts for both.
func TestCase91TwoQueuesReclaimAtOnce(t *testing.T) {
	for _, schedulers := range [][]string{{"batch", "batch"}, {"batch", "other"}} {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			for i := range 2 {
				cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 3000})
			}
			for _, name := range []string{"a", "b", "c"} {
				cell.Weigh(name, 1)
			}
			cell.Run("batch", "i", batch.New(), hasty)
			cell.Run("other", "i", batch.New(), hasty)
			for i := range 2 {
				cell.Submit(celltest.Job{Namespace: "a", Name: fmt.Sprintf("big%d", i), CPU: 3000, Scheduler: "batch"})
			}
			cell.Until("a has all", func(s *cellstate.Snapshot) bool { _, milli := live(s, "a"); return milli == 6000 })
			all := tended{cell, t}
			all.tend(0)
			for i, name := range []string{"b", "c"} {
				cell.Submit(celltest.Job{Namespace: name, Name: "full", CPU: 2000, Scheduler: schedulers[i]})
			}
			all.pass(time.Minute, 0)
			schedtest.Audited(t, cell.Store, nil)
			s := cell.Snapshot()
			_, b := live(s, "b")
			_, c := live(s, "c")
			if got := evictions(s); b != 2000 || c != 2000 || got["a"] != 2 || len(got) != 1 {
				t.Errorf("b holds %d, c %d of 2000 each; evicted were %v", b, c, got)
			}
		})
	}
}

// Field case 33 with queues: the impossible job at the head of a queue is skipped and says so, and
// the one behind it gets what is due after one round of reclaim.
func TestCase33QueuesImpossibleHead(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 6000})
		three := &ohmv1.Quota{Limit: celltest.CPU(3000), Weight: 1}
		w, _ := cellstate.QuotaWrite(cell.Snapshot(), celltest.Namespace("one"), three)
		cell.Write(w)
		cell.Weigh("two", 1)
		cell.Share(cellstate.Account{Scope: celltest.Namespace("one"), Spender: cellstate.Spender{Scheduler: "batch", Instance: "i"}}, celltest.CPU(3000))
		cell.Run("batch", "i", batch.New(), hasty)
		for i := range 5 {
			cell.Submit(celltest.Job{Namespace: "two", Name: fmt.Sprintf("j%d", i), CPU: 1000})
		}
		cell.Until("two has borrowed", func(s *cellstate.Snapshot) bool { _, milli := live(s, "two"); return milli == 5000 })
		all := tended{cell, t}
		all.tend(0)
		cell.Submit(celltest.Job{Namespace: "one", Name: "job3", CPU: 4000})
		cell.Submit(celltest.Job{Namespace: "one", Name: "job4", CPU: 3000})
		all.pass(time.Minute, 0)
		s := cell.Snapshot()
		if _, one := live(s, "one"); one != 3000 || evictions(s)["two"] != 2 {
			t.Errorf("one holds %d of 3000; evicted were %v, want 2 of two", one, evictions(s))
		}
		if got := s.Job(cellstate.JobName{Namespace: "one", Name: "job3"}).Waiting.GetMessage(); !strings.Contains(got, "can never run under the quota of namespace one") {
			t.Errorf("job3 says %q", got)
		}
	})
}

// Two have borrowed as much as one task each, and a third needs the room of two: it gets one of
// each, although two of the same would cost no more.
func TestReclaimTakesFromEachWhatItHasBorrowed(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 12_000})
		cell.Weigh("a", 1)
		cell.Run("batch", "i", batch.New(), hasty)
		for _, name := range []string{"a", "c"} {
			cell.Submit(celltest.Job{Namespace: name, Name: "j", Count: 3, CPU: 2000})
		}
		cell.Until("a and c have all", func(s *cellstate.Snapshot) bool { return s.Node("n1").Used().CPUMilli == 12_000 })
		all := tended{cell, t}
		all.tend(0)
		cell.Submit(celltest.Job{Namespace: "b", Name: "j", CPU: 4000})
		all.pass(time.Minute, 0)
		schedtest.Audited(t, cell.Store, nil)
		s := cell.Snapshot()
		if _, b := live(s, "b"); b != 4000 || evictions(s)["a"] != 1 || evictions(s)["c"] != 1 {
			t.Errorf("b holds %d of 4000, evicted were %v", b, evictions(s))
		}
	})
}
