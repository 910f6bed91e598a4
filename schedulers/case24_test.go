package schedulers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// Field case 24: two schedulers with twice as many equal jobs as there are slots never evict one
// another's, nor try to, and all jobs finish. Each task runs for a minute of the bubble.
func TestCase24EqualsDoNotEvictEachOther(t *testing.T) {
	const slots, jobs = 12, 24
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		for i := range slots / 4 {
			cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000})
		}
		names := []string{"s1", "s2"}
		for _, name := range names {
			cell.Run(name, "a", batch.New(), hasty)
		}
		for i := range jobs {
			cell.Submit(celltest.Job{Name: fmt.Sprintf("j%d", i), Scheduler: names[i%2], CPU: 1000, Precedence: celltest.BatchLevel})
		}
		running := func(s *cellstate.Snapshot) (all []cellstate.Slot) {
			for i := range jobs {
				if name := fmt.Sprintf("j%d", i); schedtest.Placed(s, name) > 0 {
					all = append(all, slotOf(name, 0))
				}
			}
			return all
		}
		for round := range jobs / slots {
			cell.Until("all slots are taken", func(s *cellstate.Snapshot) bool { return len(running(s)) == slots })
			time.Sleep(time.Minute) // of the bubble
			s := cell.Snapshot()
			for i := range slots / 4 {
				if victims := evicted(s, cellstate.NodeName(fmt.Sprintf("n%d", i))); len(victims) > 0 {
					t.Errorf("round %d: %v give way to their equals", round, victims)
				}
			}
			for _, slot := range running(s) {
				cell.Release(slot, task.Succeeded)
			}
		}
		s := cell.Until("all jobs are over", func(s *cellstate.Snapshot) bool {
			for i := range jobs {
				if !schedtest.Finished(s, fmt.Sprintf("j%d", i)) {
					return false
				}
			}
			return true
		})
		for i := range jobs {
			name := fmt.Sprintf("j%d", i)
			if ended := s.Job(celltest.Name(name)).Task(slotOf(name, 0)).Ended; len(ended) != 1 {
				t.Errorf("%s ran %d times; want once", name, len(ended))
			}
		}
		for _, name := range names {
			for _, c := range conflicts(s, name) {
				if c.GetReason() == string(cellstate.ReasonPrecedence) {
					t.Errorf("%s wanted to evict an equal: %v", name, c)
				}
			}
		}
	})
}

// What was evicted as often as it may be is left alone from then on, and the job that waits for
// its room is told why.
func TestEvictedOnlySoOften(t *testing.T) {
	const times = 2
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		cell.Run("batch", "a", batch.New(), hasty)
		cell.Run("service", "a", service.New(), func(c *schedulers.Config) {
			c.Evictions = schedulers.EvictionLimits{MinRun: -1, PerTask: times}
		})
		cell.Submit(celltest.Job{Name: "low", CPU: 4000})
		high := func(i int) string {
			name := fmt.Sprintf("high%d", i)
			cell.Until("low is placed", placed("low", 1))
			cell.Status(slotOf("low", 0), task.Running)
			cell.Submit(celltest.Job{Name: name, Kind: "service", CPU: 4000, Precedence: celltest.Production})
			return name
		}
		for i := range times {
			name := high(i)
			cell.Until(name+" is placed", placed(name, 1))
			cell.End(slotOf("low", 0), task.Preempted)
			cell.Mark(celltest.Name(name), func(j *ohmv1.Job) { j.Stopped = true })
			cell.Release(slotOf(name, 0), task.Stopped)
		}
		name := high(times)
		s := cell.Until(name+" waits", waits(name))
		if got, want := schedtest.Word(s, name).GetGroups()[0].GetNoVictims(), "on 1 of 1 nodes with tasks of lower precedence those were evicted 2 times before"; got != want {
			t.Errorf("no victims because %q; want %q", got, want)
		}
		if schedtest.Placed(s, name) > 0 || len(evicted(s, "n1")) > 0 {
			t.Error("it was evicted once more")
		}
	})
}
