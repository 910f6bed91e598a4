package schedulers

import (
	"cmp"
	"strings"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// queue holds the jobs of this instance and which of their slots may be tried now.
//
// A slot that found no node is parked: it is tried again once a room may have come free
// since the snapshot on which it was refused, its job changes, or the sweep is due, so no
// lost event parks it for ever (field case 19).
//
// Rounds belong to passes, and a pass tries each slot at most once: without that, a
// large job that never fits would be tried again with each bit of room, and hide those
// behind it for ever.
type queue struct {
	limits reconcile.Limits
	sweep  time.Duration
	jobs   map[cellstate.JobName]*entry
	active map[cellstate.JobName]*entry // of jobs, those that are active
	order  order                        // of those
	fair   fairness
	// watched are those at which each snapshot is looked at: thousands may wait, few of them
	// for anything but their turn.
	watched   map[cellstate.JobName]*entry
	shares    shares
	pass      int
	starving  map[cellstate.JobName]bool // jobs that have lost so often that room is to be held
	holdAfter int                        // losses
	seen      *cellstate.Snapshot        // of the last refresh

	rivals        map[cellstate.JobName]*cellstate.Job // that wait with other instances
	rivalsChanged uint64                               // counts

	single map[shape]time.Time // for which nothing is reserved until then

	budget *budget // of the last refresh; nil: there are no quotas

	flights int  // rounds on their way
	landing int  // counts those that have landed
	drain   bool // let all land before the next round: something was put off too often
}

func newQueue(limits reconcile.Limits, sweep time.Duration) *queue {
	return &queue{limits: limits, sweep: sweep, holdAfter: DefaultHoldAfter, starving: map[cellstate.JobName]bool{}, jobs: map[cellstate.JobName]*entry{}, active: map[cellstate.JobName]*entry{}, watched: map[cellstate.JobName]*entry{}, single: map[shape]time.Time{}, rivals: map[cellstate.JobName]*cellstate.Job{}, pass: 1}
}

// refresh brings the queue up to a snapshot, at the price of what has changed: rows are
// immutable, so a job whose row is the same and whose wake is not due is as it was. It
// returns the jobs that are gone.
func (q *queue) refresh(s *cellstate.Snapshot, scheduler string, shares shares, now time.Time) (gone []cellstate.JobName) {
	last := q.seen
	if !shares.same(&q.shares) {
		q.shares, last = shares, nil
		for _, e := range q.jobs {
			e.owned = shares.owns(e.name)
		}
	}
	if last == nil {
		clear(q.rivals)
	}
	for was, is := range s.JobChanges(last) {
		q.rival(was, is, scheduler)
		if is != nil && is.Of(scheduler) {
			q.see(s, is, now)
		} else if was != nil {
			gone = q.drop(gone, was.Name)
		}
	}
	if last == nil && q.seen != nil { // what has gone since is not among the changes
		for name := range q.jobs {
			if j := s.Job(name); j == nil || !j.Of(scheduler) {
				gone = q.drop(gone, name)
			}
		}
	}
	for _, e := range q.watched {
		q.update(e, s, e.job, now)
	}
	q.seen = s
	q.share(s.Fair())
	return gone
}

func (q *queue) drop(gone []cellstate.JobName, name cellstate.JobName) []cellstate.JobName {
	e := q.jobs[name]
	if e == nil {
		return gone
	}
	e.owned, e.job, e.needs = false, nil, nil // it may stand in the order for a while
	delete(q.jobs, name)
	delete(q.active, name)
	delete(q.watched, name)
	return append(gone, name)
}

// see takes in the row of a job.
func (q *queue) see(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) {
	e := q.jobs[j.Name]
	if e == nil {
		e = &entry{queue: q, name: j.Name, owned: q.shares.owns(j.Name)}
		q.jobs[j.Name] = e
	}
	if !e.owned {
		e.forget()
	}
	q.update(e, s, j, now)
}

func (q *queue) update(e *entry, s *cellstate.Snapshot, j *cellstate.Job, now time.Time) {
	if e.owned {
		e.update(s, j, q.limits, now)
	}
	if e.active() {
		q.active[e.name] = e
		q.order.add(e)
		q.fair.add(e)
	} else {
		delete(q.active, e.name)
	}
	q.watch(e)
}

// watch keeps watched right after a change of the entry.
func (q *queue) watch(e *entry) {
	if e.watched() {
		q.watched[e.name] = e
	} else {
		delete(q.watched, e.name)
	}
}

// fly notes that a claim of the slot is on its way, or that it has landed.
func (q *queue) fly(slot cellstate.Slot, flying bool) {
	e := q.jobs[slot.JobName()]
	switch {
	case e == nil: // the job went meanwhile
	case flying:
		if e.flying == nil {
			e.flying = map[cellstate.Slot]bool{}
		}
		e.flying[slot] = true
		q.fair.fly(e)
		delete(e.deferred, slot)
	default:
		delete(e.flying, slot)
		q.fair.fly(e)
	}
}

// deferralsMost is how often a slot is put off in favour of what is in flight.
const deferralsMost = 2

// deferred puts a slot off until something has landed.
func (q *queue) deferred(slot cellstate.Slot) {
	e := q.jobs[slot.JobName()]
	if e.deferred == nil {
		e.deferred = map[cellstate.Slot]deferral{}
	}
	d := deferral{q.landing, e.deferred[slot].times + 1}
	e.deferred[slot] = d
	q.drain = q.drain || d.times >= deferralsMost
}

// mayLaunch says whether another round may be decided now.
func (q *queue) mayLaunch() bool {
	if q.flights == 0 {
		q.drain = false
	}
	return q.flights < inFlight && !q.drain
}

// pick chooses the work of one round, in the order of the queue: precedence, then the turns
// of namespaces where they share the cell by weights, then broken gangs before all others and
// those that only grow after them, then age. Where there is none it says when there will be,
// unless something changes.
func (q *queue) pick(s *cellstate.Snapshot, most int, now time.Time) (work []Work, wake time.Time) {
	if q.fair.of != nil {
		return q.pickInTurn(s, most, now)
	}
	for range 2 { // this pass; where it has tried all that can be tried, the next
		left, tried, waits := most, false, false
		wake = time.Time{}
		for e := range q.order.walk {
			if e.stage == grows && waits {
				continue // what comes free is not for it
			}
			waits = waits || e.waitsWhole()
			free, at := e.free(s, now)
			wake = earlier(wake, earlier(at, e.wake))
			if !free {
				continue
			}
			var needs []reconcile.Need
			if e.pass < q.pass {
				needs = e.take(s, now, q.pass, left, wholeNeeds)
			}
			if len(needs) == 0 { // tried in this pass
				tried = true
				continue
			}
			work = append(work, Work{Job: e.job, Needs: needs})
			if left -= len(needs); left <= 0 {
				break
			}
		}
		if len(work) > 0 || !tried {
			break
		}
		q.pass++
	}
	return work, wake
}

// waitsWhole says whether the entry is a gang that waits for room to start or to be whole again,
// which there may be one day.
func (e *entry) waitsWhole() bool {
	return gang(e.job) && e.stage != grows && len(e.needs) > 0 && e.hopeless == "" && !e.never()
}

func byUrgency(a, b *entry) int {
	if c := cmp.Or(cmp.Compare(b.precedence, a.precedence), cmp.Compare(a.stage, b.stage), cmp.Compare(a.submitted, b.submitted), cmp.Compare(a.version, b.version)); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.name.Namespace, b.name.Namespace), strings.Compare(a.name.Name, b.name.Name))
}

// earlier is the earlier of two times of which a zero one means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// size is the number of this instance's jobs and of their slots without a node.
func (q *queue) size() (jobs, waiting int) {
	for _, e := range q.jobs {
		if e.owned && e.job != nil {
			jobs++
			waiting += len(e.needs)
		}
	}
	return jobs, waiting
}
