package schedulers

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Runner is a scheduler process: a queue around a policy. Its registration, its journal
// of conflicts and its last words stand in the store; nothing that it keeps in memory is
// needed after a restart.
type Runner struct {
	Config       // filled
	wrong  error // with the configuration

	stats  counters
	landed chan *flight // rounds that were on their way
	found  chan *held   // what a search for room has come to

	// Only the deciding loop uses what follows.
	queue      *queue
	journal    journal
	decided    decisionLog
	answered   map[string]bool // questions that stand there still, by id
	ids        *ids
	chance     *rand.Rand
	nodes      map[cellstate.NodeName]int // claims in flight
	window     int                        // claims that may be under way
	underWay   int
	counted    time.Time                  // when the queue was last counted
	gone       map[cellstate.JobName]bool // jobs that left the queue and may have left a word
	wordsAt    time.Time                  // no words before
	errorPause time.Duration
	deciding   time.Duration // that a decision takes at most, of late
	seeking    bool          // there is a search for room
	within     *held         // the room that the next decision is to be within

	spending map[cellstate.Scope]cellstate.Amounts // of quotas, by what is in flight
	planning bool                                  // a reservation is being planned
	planned  chan *reservation                     // what has come of it
	reserved *reservation                          // nil: none
	ending   []chan struct{}                       // reservations that were ended
	headAt   time.Time                             // when the head of the queue is looked at again

	passed atomic.Int64 // when the deciding loop was last at work: Unix time in ns

	yield  yield
	wants  wants
	evicts evicts // of late
}

// New returns a Runner that does nothing until Run.
func New(c Config) *Runner {
	c, err := c.filled()
	r := &Runner{
		Config:   c,
		wrong:    err,
		queue:    newQueue(reconcile.Defaults(), c.Times.Sweep),
		ids:      newIDs(),
		chance:   rand.New(rand.NewPCG(hash(c.Name), hash(c.Instance))),
		answered: map[string]bool{},
		gone:     map[cellstate.JobName]bool{},
		nodes:    map[cellstate.NodeName]int{},
		window:   mostWindow,
		landed:   make(chan *flight, inFlight),
		found:    make(chan *held, 1),
		planned:  make(chan *reservation, 1),
		spending: map[cellstate.Scope]cellstate.Amounts{},
	}
	r.queue.holdAfter, r.queue.fair.yield = c.HoldAfter, c.Times.Yield
	return r
}

// Stats is what the Runner has done so far.
func (r *Runner) Stats() Stats { return r.stats.read() }

// Run schedules until ctx ends, which is not an error. It outlives a store that goes
// away and comes back. The only error is a configuration that cannot work.
func (r *Runner) Run(ctx context.Context) error {
	if r.wrong != nil {
		return r.wrong
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.stayRegistered(ctx) })
	g.Go(func() error { return r.decide(ctx) })
	return g.Wait()
}

// decide is the loop: the latest snapshot, what it needs, a round; or wait for a newer
// snapshot, for a round to land, or for the time at which more becomes due.
func (r *Runner) decide(ctx context.Context) error {
	defer r.endReservations()
	defer r.landRoom(ctx, true)
	defer r.land(ctx, true)
	for ctx.Err() == nil {
		r.land(ctx, false)
		r.landRoom(ctx, false)
		s, newer := r.Cell.Watch()
		var wake time.Time
		if s != nil {
			now := r.Clock()
			r.passed.Store(now.UnixNano())
			shares := sharesOf(s, r.Name, r.Instance)
			for _, name := range r.queue.refresh(s, r.Name, shares, now) {
				r.gone[name] = true
			}
			r.queue.budget = r.newBudget(s)
			r.yieldTo(s, now)
			if r.answer(ctx, s, now) {
				continue
			}
			said, wrote := r.speak(ctx, s, now)
			if wrote {
				continue
			}
			asked, wrote := r.keepShares(ctx, s, now)
			if wrote {
				continue
			}
			var work []Work
			due := earlier(r.seekRoom(ctx, now), r.reserveRoom(ctx, s, now))
			if r.queue.mayLaunch() {
				if r.decideWithin(ctx, s) {
					continue
				}
				if most := r.most(); most > 0 {
					var at time.Time
					work, at = r.queue.pick(s, most, now)
					due = earlier(due, at)
				}
				if len(work) > 0 {
					r.round(ctx, s, shares.home, work)
				}
			}
			r.record(ctx, now)
			if len(work) > 0 {
				continue
			}
			wake = earlier(earlier(due, said), asked)
		}
		r.wait(ctx, newer, wake)
	}
	return nil
}

// record writes the journal and counts the queue.
func (r *Runner) record(ctx context.Context, now time.Time) {
	if len(r.journal.unwritten) > 0 {
		if err := r.writeJournal(ctx, r.Clock()); err != nil && ctx.Err() == nil {
			r.failed(ctx, "writing the conflict journal", err)
		}
	}
	if now.Sub(r.counted) < time.Second && len(r.queue.jobs) > 100 {
		return
	}
	r.counted = now
	jobs, waiting := r.queue.size()
	r.stats.add(func(c *Stats) { c.Jobs, c.Waiting = jobs, waiting })
}

// wait waits for a newer snapshot, for wake unless it is zero, or for the end of ctx.
func (r *Runner) wait(ctx context.Context, newer <-chan struct{}, wake time.Time) {
	var due <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(wake.Sub(r.Clock()))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-newer:
	case f := <-r.landed:
		r.settle(ctx, f)
	case h := <-r.found:
		r.takeRoom(h)
	case v := <-r.planned:
		r.takeReservation(v)
	case <-due:
	case <-ctx.Done():
	}
}
