package schedulers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// finished says whether all tasks of these jobs have ended.
func finished(jobs ...string) func(*cellstate.Snapshot) bool {
	return func(s *cellstate.Snapshot) bool {
		return !slices.ContainsFunc(jobs, func(j string) bool { return !schedtest.Finished(s, j) })
	}
}

// together runs something beside a test until the test, or the bubble's, ends.
func together(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// The words: a scheduler whose decisions take 5 s finishes its jobs beside two
// that take 1 ms and keep the cell full, or nearly so, with short tasks. Where more is always
// wanted than there is, it hardly ever sees room that it could lose.
func TestNothingStarves(t *testing.T) {
	for _, c := range []struct {
		name   string
		jobs   func() int // of the quick ones; the cell has room for 16
		losses int
	}{
		{"a cell that is full now and then", func() int { return []int{12, 20}[time.Now().Unix()/2%2] }, schedulers.DefaultHoldAfter},
		{"a cell in which more is always wanted than there is", func() int { return 24 }, schedulers.DefaultHoldAfter},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				for i := range 4 {
					cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000})
				}
				quick := cell.Run("quick1", "a", schedtest.Takes{Policy: schedtest.FirstFit{}, Time: time.Millisecond})
				cell.Run("quick2", "a", schedtest.Takes{Policy: schedtest.FirstFit{}, Time: time.Millisecond})
				slow := cell.Run("slow", "a", schedtest.Takes{Policy: schedtest.FirstFit{}, Time: 5 * time.Second}, func(config *schedulers.Config) { config.HoldAfter = c.losses })
				defer together(t, (&schedtest.Churn{
					Store: cell.Store, Mirror: quick.Mirror, Of: []string{"quick1", "quick2"}, Jobs: c.jobs, Life: time.Second, Tick: 23 * time.Millisecond,
				}).Run)()
				cell.Submit(celltest.Job{Name: "one", Scheduler: "slow", CPU: 1000})
				cell.Submit(celltest.Job{Name: "three", Scheduler: "slow", Count: 3, CPU: 1000})
				cell.Submit(celltest.Job{Name: "gang", Scheduler: "slow", Kind: "ml", Gang: true, Count: 2, CPU: 500})
				began := time.Now()
				s := cell.Within(600*time.Second, "the slow scheduler's jobs have finished", finished("one", "three", "gang"))
				t.Logf("finished after %v; %d conflicts, %d holds", time.Since(began), len(conflicts(s, "slow")), slow.Stats().Holds)
				schedtest.Audited(t, cell.Store, nil)
			})
		})
	}
}
