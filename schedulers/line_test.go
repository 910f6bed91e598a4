package schedulers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// inLine is where a job stands in line, as "3/5: j1 j2".
func inLine(s *cellstate.Snapshot, name string) (*ohmv1.QueueView, string) {
	q := schedulers.InLine(s, celltest.Name(name), time.Now())
	var ahead []string
	for _, a := range q.GetAhead() {
		ahead = append(ahead, a.GetJob())
	}
	return q, fmt.Sprintf("%d/%d: %s", q.GetPosition(), q.GetOf(), strings.Join(ahead, " "))
}

// Field case 116: five jobs of one minute each wait for one slot. Each knows its position, who is
// ahead and when it starts, no further from the truth than one job takes; one that is cancelled
// moves those behind it up. In a bubble.
func TestCase116WhereInTheQueueAndWhen(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		const runs = time.Minute
		cell.Up(celltest.Node{Name: "n1", CPU: 1000})
		cell.Run("batch", "a", batch.New(), hasty)
		submit := func(name string) { cell.Submit(celltest.Job{Name: name, CPU: 1000, MaxRuntime: runs}) }
		submit("j0")
		cell.Until("j0 is placed", placed("j0", 1))
		for i := 1; i <= 5; i++ {
			time.Sleep(time.Second) // of the bubble
			submit(fmt.Sprintf("j%d", i))
		}
		s := cell.Until("all wait", func(s *cellstate.Snapshot) bool {
			return waits("j1")(s) && waits("j2")(s) && waits("j3")(s) && waits("j4")(s) && waits("j5")(s)
		})
		estimates := map[string]time.Time{}
		look := func(names string, lines ...string) {
			t.Helper()
			for i, name := range strings.Fields(names) {
				q, got := inLine(s, name)
				if got != lines[i] {
					t.Errorf("%s is %q, want %q", name, got, lines[i])
				}
				if e := q.GetEstimate(); e.GetCode() != schedulers.EstimateLimits || !strings.Contains(e.GetBasis(), "maxRuntime") {
					t.Errorf("%s has the estimate %v", name, e)
				}
				if n := int64(i); int64(q.GetTasksAhead()) != n || q.GetWantsAhead().GetCpuMilli() != 1000*n {
					t.Errorf("ahead of %s are %d tasks that want %v", name, q.GetTasksAhead(), q.GetWantsAhead())
				}
				estimates[name] = q.GetEstimate().GetStart().AsTime()
			}
		}
		look("j1 j2 j3 j4 j5", "1/5: ", "2/5: j1", "3/5: j1 j2", "4/5: j1 j2 j3", "5/5: j1 j2 j3 j4")
		follows := func(name, ended string) {
			t.Helper()
			p := s.Job(celltest.Name(ended)).Task(slotOf(ended, 0)).Placement
			time.Sleep(time.Until(p.GetTime().AsTime().Add(runs))) // of the bubble
			cell.Release(p.Slot, task.Succeeded)
			s = cell.Until(name+" is placed", placed(name, 1))
			if off := time.Until(estimates[name]); off.Abs() > runs {
				t.Errorf("%s starts %v off its estimate", name, off)
			}
		}
		follows("j1", "j0")
		cell.Mark(celltest.Name("j2"), func(j *ohmv1.Job) { j.Stopped = true })
		s = cell.Snapshot()
		look("j3 j4 j5", "1/3: ", "2/3: j3", "3/3: j3 j4")
		follows("j3", "j1")
		follows("j4", "j3")
		follows("j5", "j4")
		if q := schedulers.InLine(s, celltest.Name("j5"), time.Now()); q != nil {
			t.Errorf("j5 runs and is in line: %v", q)
		}
	})
}

// What nobody can tell is not guessed, and what can never run is in nobody's way.
func TestLineKnowsWhatItDoesNotKnow(t *testing.T) {
	for _, c := range []struct {
		name      string
		stands    celltest.Job
		before    celltest.Job
		line      string
		code, why string
	}{
		{"no limit", celltest.Job{CPU: 1000}, celltest.Job{CPU: 1000}, "2/2: before", schedulers.EstimateNoLimit, "default/stands"},
		{"no limit of the one ahead", celltest.Job{CPU: 1000, MaxRuntime: time.Minute}, celltest.Job{CPU: 1000}, "2/2: before", schedulers.EstimateNoLimit, "default/before"},
		{"an impossible one ahead", celltest.Job{CPU: 1000, MaxRuntime: time.Minute}, celltest.Job{CPU: 9000}, "1/1: ", schedulers.EstimateLimits, "maxRuntime"},
		{"a higher one elsewhere", celltest.Job{CPU: 1000, MaxRuntime: time.Minute}, celltest.Job{CPU: 1000, MaxRuntime: time.Minute, Scheduler: "other", Precedence: 100}, "2/2: before", schedulers.EstimateLimits, "1 job ahead"},
		{"an equal one elsewhere", celltest.Job{CPU: 1000, MaxRuntime: time.Minute}, celltest.Job{CPU: 1000, Scheduler: "other"}, "1/1: ", schedulers.EstimateLimits, "maxRuntime"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1", CPU: 1000})
				for _, name := range []string{"batch", "other"} {
					cell.Run(name, "a", batch.New()) // what stands there is too young to be evicted
				}
				c.stands.Name, c.before.Name = "stands", "before"
				cell.Submit(c.stands)
				cell.Until("it stands there", placed("stands", 1))
				cell.Submit(c.before)
				cell.Until("the one before waits", waits("before"))
				cell.Submit(celltest.Job{Name: "j", CPU: 1000})
				s := cell.Until("j waits", waits("j"))
				q, line := inLine(s, "j")
				if line != c.line || q.GetEstimate().GetCode() != c.code || !strings.Contains(q.GetEstimate().GetBasis(), c.why) {
					t.Errorf("it is %q with the estimate %v; want %q and %s because of %q", line, q.GetEstimate(), c.line, c.code, c.why)
				}
			})
		})
	}
}
