package schedulers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// slow is a policy that takes its time.
type slow struct {
	schedulers.Scheduler
	takes time.Duration
}

func (p slow) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	<-time.After(p.takes)
	return p.Scheduler.Schedule(ctx, in)
}

// neverEvicts keeps a Runner from evicting: its tasks wait for room.
func neverEvicts(c *schedulers.Config) { c.Evictions.PerMinute = -1 }

// When room comes free the highest precedence that waits for it gets it, although its
// scheduler is slower than those of others that wait; and nobody waits for one that is not
// there any more, nor for long for one that wants the room only by its word.
func TestPrecedenceAcrossSchedulers(t *testing.T) {
	full := func(cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000}, celltest.Node{Name: "n2", CPU: 4000})
		cell.Job(celltest.Job{Name: "first", Scheduler: "nobody", Count: 8, CPU: 1000})
		for i := range 8 {
			cell.Place("first", i, fmt.Sprintf("n%d", i%2+1))
		}
	}
	end := func(cell *schedtest.Cell, i int) { cell.Release(slotOf("first", i), task.Succeeded) }
	for _, quick := range []string{"batch", "service"} {
		t.Run(quick+" is quick", func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				full(cell)
				takes := map[string]time.Duration{"batch": 60 * time.Millisecond, "service": 60 * time.Millisecond}
				takes[quick] = 0
				cell.Run("batch", "a", slow{batch.New(), takes["batch"]}, neverEvicts)
				cell.Run("service", "a", slow{service.New(), takes["service"]}, neverEvicts)
				cell.Submit(celltest.Job{Name: "low", CPU: 1000, Count: 8})
				cell.Until("the low one waits", waits("low"))
				cell.Submit(celltest.Job{Name: "high", Kind: "service", CPU: 1000, Count: 4, Precedence: celltest.BatchLevel})
				cell.Until("the high one waits", waits("high"))
				for i := range 6 {
					<-time.After(time.Second)
					end(cell, i)
					s := cell.Until("the room is taken", func(s *cellstate.Snapshot) bool {
						return schedtest.Placed(s, "high")+schedtest.Placed(s, "low") == i+1
					})
					if high := schedtest.Placed(s, "high"); high != min(i+1, 4) {
						t.Fatalf("of %d that came free %d went to the higher precedence", i+1, high)
					}
				}
			})
		})
	}
	t.Run("it is gone", func(t *testing.T) {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			full(cell)
			cell.Run("batch", "a", batch.New(), neverEvicts)
			other := cell.Run("service", "a", service.New(), neverEvicts)
			cell.Submit(celltest.Job{Name: "low", CPU: 1000})
			cell.Submit(celltest.Job{Name: "high", Kind: "service", CPU: 1000, Precedence: celltest.BatchLevel})
			cell.Until("both wait", func(s *cellstate.Snapshot) bool { return waits("low")(s) && waits("high")(s) })
			other.Stop()
			end(cell, 0)
			cell.Within(20*time.Millisecond, "the low one is placed", placed("low", 1))
		})
	})
	t.Run("it does not take it", func(t *testing.T) {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			full(cell)
			cell.Run("batch", "a", batch.New(), neverEvicts)
			cell.Run("service", "a", stuck{service.New(), 8}, neverEvicts)
			cell.Submit(celltest.Job{Name: "low", CPU: 1000})
			cell.Submit(celltest.Job{Name: "high", Kind: "service", CPU: 1000, Precedence: celltest.BatchLevel})
			cell.Until("both wait", func(s *cellstate.Snapshot) bool { return waits("low")(s) && waits("high")(s) })
			end(cell, 0)
			cell.Within(300*time.Millisecond, "the low one is placed", placed("low", 1))
		})
	})
}

// stuck is a policy that stands still once fewer than so many tasks of the job "first" are
// placed.
type stuck struct {
	schedulers.Scheduler
	least int
}

func (p stuck) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	if schedtest.Placed(in.Snapshot, "first") < p.least {
		<-ctx.Done()
		return schedulers.Proposal{}, ctx.Err()
	}
	return p.Scheduler.Schedule(ctx, in)
}
