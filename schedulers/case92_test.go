package schedulers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// stream is work that never ends: tasks of one GPU that run for half a minute, of which a
// few always wait. Its steps also end what stands on the nodes, each task after its time.
type stream struct {
	cell  *schedtest.Cell
	job   celltest.Job             // of each; its Name is a prefix
	runs  time.Duration            // of its tasks
	other map[string]time.Duration // of the tasks of other jobs; absent: they do not end
	count int
}

// until runs the stream until a condition holds, and says how long that took; it fails
// after a limit.
func (f *stream) until(t *testing.T, limit time.Duration, what string, ok func(*cellstate.Snapshot) bool) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		s := f.cell.Snapshot()
		if ok(s) {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			for n := range s.Nodes() {
				t.Logf("%s: %d placements, holds %v", n.Name, n.Count(), n.Holds)
				for _, p := range n.Placements() {
					t.Logf("%s %v since %v until %v", p.Slot.Task(), p.GetGpus(), time.Since(p.GetTime().AsTime()), p.GetLatestEnd().AsTime())
				}
			}
			t.Fatalf("not within %v: %s", limit, what)
		}
		f.step(s)
		<-time.After(250 * time.Millisecond) // of the bubble
	}
}

func (f *stream) step(s *cellstate.Snapshot) {
	waiting := 0
	for j := range s.Jobs() {
		ours := len(j.Name.Name) > len(f.job.Name) && j.Name.Name[:len(f.job.Name)] == f.job.Name
		if ours && len(j.Tasks) == 0 {
			waiting++
		}
		for _, task0 := range j.Tasks {
			runs, ends := f.other[j.Name.Name]
			if ours {
				runs, ends = f.runs, true
			}
			if p := task0.Placement; ends && p != nil && time.Since(p.GetTime().AsTime()) >= runs {
				f.cell.Release(p.Slot, task.Succeeded)
			}
		}
	}
	for ; waiting < 4; waiting++ {
		f.count++
		j := f.job
		j.Name = fmt.Sprintf("%s%d", f.job.Name, f.count)
		f.cell.Submit(j)
	}
}

// Field case 92: a large job gets its room within the time of those that run, although a
// stream of small ones takes each bit of it, from the same scheduler or from another; and
// nobody else waits for it.
func TestCase92LargeJobsDoNotStarve(t *testing.T) {
	for _, c := range []struct {
		name  string
		small celltest.Job
		large celltest.Job
		nodes int
		limit time.Duration
	}{
		{"one scheduler", celltest.Job{MaxRuntime: 30 * time.Second}, celltest.Job{Kind: "batch", GPUs: 8}, 1, 38 * time.Second},
		{"another scheduler", celltest.Job{MaxRuntime: 30 * time.Second}, celltest.Job{Kind: "ml", Gang: true, GPUs: 8}, 1, 38 * time.Second},
		{"a gang over nodes", celltest.Job{MaxRuntime: 30 * time.Second}, celltest.Job{Kind: "ml", Gang: true, GPUs: 8, Count: 3}, 4, 38 * time.Second},
		{"nobody declares", celltest.Job{}, celltest.Job{Kind: "ml", Gang: true, GPUs: 8, Count: 2}, 2, 38 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				for i := range c.nodes {
					cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i+1), CPU: 64000, GPUs: 8, Model: "T4"})
				}
				cell.Run("batch", "a", batch.New())
				cell.Run("ml", "a", ml.New())
				f := &stream{cell: cell, job: c.small, runs: 30 * time.Second, other: map[string]time.Duration{}}
				f.job.Name, f.job.GPUs, f.job.CPU = "small-", 1, 1000
				filled := 0
				f.until(t, time.Minute, "the stream fills the cell", func(s *cellstate.Snapshot) bool {
					filled = 0
					for n := range s.Nodes() {
						filled += n.Count()
					}
					return filled == 8*c.nodes
				})
				f.until(t, time.Minute, "time passes", after(37*time.Second)) // the ends are spread out no more than the starts
				c.large.Name, c.large.CPU = "large", 8000
				cell.Submit(c.large)
				f.until(t, 10*time.Second, "the large job waits", waits("large"))
				cell.Submit(celltest.Job{Name: "cpu", CPU: 4000})
				if took := f.until(t, time.Second, "a job without GPUs starts at once", placed("cpu", 1)); took > time.Second {
					t.Errorf("it took %v", took)
				}
				f.until(t, c.limit, "the large job has room", placed("large", max(1, c.large.Count)))
				cell.Until("nothing is reserved any more", func(s *cellstate.Snapshot) bool { return len(holds(s)) == 0 })
			})
		})
	}
}

// after holds when so much time has passed.
func after(d time.Duration) func(*cellstate.Snapshot) bool {
	at := time.Now().Add(d)
	return func(*cellstate.Snapshot) bool { return !time.Now().Before(at) }
}
