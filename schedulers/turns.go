package schedulers

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// fairness is the order of a queue while namespaces share the cell by weights. It is the
// Runner's and no policy's, so it is the same whatever the scheduler: within a precedence the
// namespace is served next that holds least by its weight, with what it held of late, with what
// it has in flight and with what this round has taken for it already.
type fairness struct {
	of     *cellstate.Fair              // nil: they do not
	lanes  map[string]*order            // by namespace: its active entries
	flying map[cellstate.JobName]*entry // with claims in flight

	yield  time.Duration      // see patience
	room   cellstate.Revision // at which room has last come free
	roomAt time.Time          // when that was seen
	needy  map[string]int32   // namespaces of which jobs wait with other instances: the highest precedence
	known  uint64             // the queue's count of changes of rivals, at which those were listed
}

// share takes in how namespaces share the cell.
func (q *queue) share(of *cellstate.Fair) {
	switch {
	case of == nil && q.fair.of != nil:
		for _, lane := range q.fair.lanes {
			for _, e := range lane.entries {
				e.laned = false
			}
		}
		q.fair = fairness{yield: q.fair.yield}
	case of != nil && q.fair.of == nil:
		q.fair = fairness{of: of, lanes: map[string]*order{}, flying: map[cellstate.JobName]*entry{}, yield: q.fair.yield}
		for _, e := range q.active {
			q.fair.add(e)
		}
		for _, e := range q.jobs {
			q.fair.fly(e)
		}
	default:
		q.fair.of = of
	}
}

func (f *fairness) add(e *entry) {
	if f.of == nil {
		return
	}
	lane := f.lanes[e.name.Namespace]
	if lane == nil {
		lane = &order{lane: true}
		f.lanes[e.name.Namespace] = lane
	}
	lane.add(e)
}

// fly keeps flying right after a change of what an entry has in flight.
func (f *fairness) fly(e *entry) {
	switch {
	case f.of == nil:
	case len(e.flying) > 0 && e.job != nil:
		f.flying[e.name] = e
	default:
		delete(f.flying, e.name)
	}
}

// moved says that the urgency of an entry has changed, or is about to.
func (q *queue) moved(e *entry) {
	q.order.moved(e)
	if lane := q.fair.lanes[e.name.Namespace]; lane != nil {
		lane.moved(e)
	}
}

// inFlight is what the claims hold that the snapshot may not show yet, by namespace.
func (f *fairness) inFlight() map[string]cellstate.Amounts {
	holds := map[string]cellstate.Amounts{}
	for name, e := range f.flying {
		if e.job == nil {
			continue
		}
		for slot := range e.flying {
			t := e.job.Task(slot)
			if g := e.job.Group(slot.Group); g != nil && (t == nil || t.Placement == nil) {
				holds[name.Namespace] = holds[name.Namespace].Plus(cellstate.GroupAmounts(g))
			}
		}
	}
	return holds
}

// lane is a namespace of which work is being picked.
type lane struct {
	namespace string
	head      *entry // the next of its entries to be tried
	next      func() (*entry, bool)
	turn      float64
}

// byTurn is the order among namespaces.
func byTurn(a, b *lane) int {
	return cmp.Or(cmp.Compare(b.head.precedence, a.head.precedence), cmp.Compare(a.turn, b.turn), byUrgency(a.head, b.head))
}

// open begins to walk all lanes; shut must be called.
func (f *fairness) open(holds map[string]cellstate.Amounts) (lanes []*lane, shut func()) {
	var stops []func()
	for name, o := range f.lanes {
		l := &lane{namespace: name, turn: f.of.Turn(name, holds[name])}
		var stop func()
		l.next, stop = iter.Pull(o.walk)
		stops = append(stops, stop)
		if e, ok := l.next(); ok {
			l.head = e
			lanes = append(lanes, l)
		}
	}
	return lanes, func() {
		for _, stop := range stops {
			stop()
		}
		for name, o := range f.lanes {
			if len(o.entries) == 0 {
				delete(f.lanes, name)
			}
		}
	}
}

// walk yields the active entries in the order of the queue, as things stand on the last snapshot.
func (q *queue) walk(yield func(*entry) bool) {
	if q.fair.of == nil {
		q.order.walk(yield)
		return
	}
	lanes, shut := q.fair.open(q.fair.inFlight())
	defer shut()
	for len(lanes) > 0 {
		first := slices.MinFunc(lanes, byTurn)
		if !yield(first.head) {
			return
		}
		lanes = first.advance(lanes)
	}
}

// advance goes on to the next entry of a lane, and drops the lane at its end.
func (l *lane) advance(lanes []*lane) []*lane {
	if e, ok := l.next(); ok {
		l.head = e
		return lanes
	}
	return slices.DeleteFunc(lanes, func(o *lane) bool { return o == l })
}

// pickInTurn is pick where namespaces share the cell. A job of many tasks may come up several
// times in one round, a part each time.
func (q *queue) pickInTurn(s *cellstate.Snapshot, most int, now time.Time) (work []Work, wake time.Time) {
	q.fair.see(q, s, now)
	for range 2 { // as in pick
		left, tried := most, false
		wake = time.Time{}
		holds := q.fair.inFlight()
		lanes, shut := q.fair.open(holds)
		lacks := q.fair.lacking()
		for left > 0 && len(lanes) > 0 {
			l := slices.MinFunc(lanes, byTurn)
			e := l.head
			if e.stage == grows && q.fair.gangWaits(e.precedence) {
				lanes = l.advance(lanes) // as in pick
				continue
			}
			free, at := e.free(s, now)
			wake = earlier(wake, earlier(at, e.wake))
			if until := q.fair.patience(l, holds, lacks, now); free && until.After(now) {
				wake = earlier(wake, until)
				lanes = l.advance(lanes)
				continue
			}
			var needs []reconcile.Need
			if free && e.pass < q.pass {
				n, whole := left, wholeNeeds
				if contested(lanes, l) {
					n, whole = q.fair.stint(l, e, left), 0
				}
				needs = e.take(s, now, q.pass, n, whole)
			}
			if len(needs) == 0 {
				tried = tried || free // in this pass
				lanes = l.advance(lanes)
				continue
			}
			if last := len(work) - 1; last >= 0 && work[last].Job == e.job {
				work[last].Needs = append(work[last].Needs, needs...)
			} else {
				work = append(work, Work{Job: e.job, Needs: needs})
			}
			left -= len(needs)
			holds[l.namespace] = holds[l.namespace].Plus(cost(needs...))
			l.turn = q.fair.of.Turn(l.namespace, holds[l.namespace])
			if e.pass == q.pass {
				lanes = l.advance(lanes)
			}
		}
		shut()
		if len(work) > 0 || !tried {
			break
		}
		q.pass++
	}
	return work, wake
}

// gangWaits says whether a gang of at least that precedence waits for room to start or to be whole
// again, in any namespace.
func (f *fairness) gangWaits(precedence int32) bool {
	for _, lane := range f.lanes {
		if slices.ContainsFunc(lane.entries, func(e *entry) bool { return e.precedence >= precedence && e.active() && e.waitsWhole() }) {
			return true
		}
	}
	return false
}

// contested says whether another namespace has work of the same precedence.
func contested(lanes []*lane, l *lane) bool {
	return slices.ContainsFunc(lanes, func(o *lane) bool { return o != l && o.head.precedence == l.head.precedence })
}

// stints bounds by how much of what is due to it a namespace may come before others in one
// turn: a fraction of so many. Turns of single tasks are as fair as can be and, in a large
// cell, slow for nothing.
const stints = 64

// stint is how many tasks of an entry are taken in one turn.
func (f *fairness) stint(l *lane, e *entry, most int) int {
	one := 0.0
	for _, g := range e.job.Record.GetSpec().GetGroups() {
		one = max(one, f.of.Share(cellstate.GroupAmounts(g)))
	}
	if one <= 0 {
		return most
	}
	return max(1, min(most, int(f.of.Due(l.namespace)/stints/one)))
}
