package schedulers

import (
	"context"
	"errors"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// inFlight is how many rounds may be on their way to the store at once: while one is,
// the next is decided. More buy no throughput, only a longer wait at the store.
const inFlight = 2

// How many claims may be on their way follows the time that the store takes for a round: a
// slow one makes the window smaller, so that a service's one-task job never queues behind a
// wall of batch. What several schedulers have under way together settles by itself
// (additive increase, multiplicative decrease; Chiu and Jain 1989).
const (
	leastNeeds = 32  // of a round, unless no more wait
	mostNeeds  = 300 // of a round, about; a gang is never cut
	wholeNeeds = 100 // nor is a job of so many
	mostWindow = inFlight * mostNeeds
	slowCommit = 20 * time.Millisecond
)

// flight is one round on its way: its transactions, and what came of them.
type flight struct {
	snapshot *cellstate.Snapshot // on which it was decided
	txns     []*cellstate.Txn
	results  []cellstate.Result
	err      error
	took     time.Duration
	lease    cellstate.Lease                       // of holds that end with it; 0: none
	spends   map[cellstate.Scope]cellstate.Amounts // where there are quotas
}

func (f *flight) claims() (n int) {
	for _, t := range f.txns {
		n += len(t.Claims)
	}
	return n
}

// launch sends transactions to the store. Their slots and nodes are left alone until
// they have landed. Whoever ends the Runner waits for its flights.
func (r *Runner) launch(ctx context.Context, f *flight) {
	for _, t := range f.txns {
		for _, c := range t.Claims {
			r.queue.fly(c.Slot, true)
			r.nodes[c.Node]++
		}
	}
	f.spends = r.spend(f.snapshot, f.txns)
	r.queue.flights++
	r.underWay += f.claims()
	go func() {
		r.fly(ctx, f)
		r.giveBack(ctx, f.lease)
		r.landed <- f
	}()
}

// fly commits and waits until the snapshot shows what came of it. While that is not
// known the transactions are sent again: their ids make that harmless (L6).
func (r *Runner) fly(ctx context.Context, f *flight) {
	began := time.Now()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, r.Times.RetryMost) {
		f.results, f.err = r.Cell.Commit(ctx, f.txns...)
		if !errors.Is(f.err, cellstate.ErrUnknown) || ctx.Err() != nil {
			break
		}
		sleep(ctx, pause)
	}
	f.took = time.Since(began)
	reached := f.snapshot.Revision()
	for _, res := range f.results {
		reached = max(reached, res.Revision)
		for _, c := range res.Conflicts {
			reached = max(reached, c.Revision)
		}
	}
	if _, err := r.Cell.WaitSnapshot(ctx, reached); err != nil && f.err == nil {
		f.err = err
	}
}

// land takes in what has landed; with wait it waits for all that is on its way.
func (r *Runner) land(ctx context.Context, wait bool) {
	for r.queue.flights > 0 {
		if wait {
			r.settle(ctx, <-r.landed)
			continue
		}
		select {
		case f := <-r.landed:
			r.settle(ctx, f)
		default:
			return
		}
	}
}

// resize fits the window to the time that a round took.
func (r *Runner) resize(took time.Duration) {
	if took > slowCommit {
		r.window = max(leastNeeds, r.window*85/100)
	} else {
		r.window = min(mostWindow, r.window+8)
	}
}

// most is how many needs the next round may have; 0: it waits for one to land.
func (r *Runner) most() int {
	if r.queue.flights == 0 {
		return min(mostNeeds, r.window)
	}
	if left := r.window - r.underWay; left >= leastNeeds {
		return min(mostNeeds, left)
	}
	return 0
}
