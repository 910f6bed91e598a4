package schedulers

import (
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// What is borrowed today is evicted tomorrow, so it is not borrowed lightly: while anybody below
// its due waits, with whichever scheduler, room that has just come free is left alone for a
// moment by those who would hold more than their due with it. As with what waits elsewhere at a
// higher precedence (see yield), that costs them the moment and no more.

// patiences is for how many such moments in a row a job is patient at most: room may come and
// go all the time.
const patiences = 4

// see notes when room came free, and who waits with other instances.
func (f *fairness) see(q *queue, s *cellstate.Snapshot, now time.Time) {
	if f.room != s.RoomRevision() {
		f.room, f.roomAt = s.RoomRevision(), now
	}
	if f.needy != nil && f.known == q.rivalsChanged {
		return
	}
	f.known, f.needy = q.rivalsChanged, map[string]int32{}
	for name, j := range q.rivals {
		p := j.Record.GetSpec().GetPrecedence()
		if most, known := f.needy[name.Namespace]; (!known || p > most) && registered(s, j.Waiting.GetScheduler(), j.Waiting.GetInstance()) {
			f.needy[name.Namespace] = p
		}
	}
}

// lacking are the namespaces below their due that have something waiting, with the highest
// precedence of it.
func (f *fairness) lacking() map[string]int32 {
	lacks := map[string]int32{}
	note := func(namespace string, precedence int32) {
		if most, known := lacks[namespace]; (!known || precedence > most) && f.of.Share(f.of.Queue(namespace).Used) < f.of.Due(namespace) {
			lacks[namespace] = precedence
		}
	}
	for name, p := range f.needy {
		note(name, p)
	}
	for name, o := range f.lanes {
		if i := slices.IndexFunc(o.entries, func(e *entry) bool { return e.owned && len(e.needs) > 0 }); i >= 0 {
			note(name, o.entries[i].precedence)
		}
	}
	return lacks
}

// patience is until when the head of a lane leaves room alone; in the past: it does not.
func (f *fairness) patience(l *lane, holds map[string]cellstate.Amounts, lacks map[string]int32, now time.Time) time.Time {
	e := l.head
	until := f.roomAt.Add(f.yield)
	if len(e.needs) == 0 || !until.After(now) || f.of.Within(l.namespace, holds[l.namespace].Plus(cellstate.GroupAmounts(e.needs[0].Group))) {
		e.yields = time.Time{}
		return time.Time{}
	}
	for name, p := range lacks {
		if name == l.namespace || p != e.precedence { // a higher one comes first anyway
			continue
		}
		if e.yields.IsZero() {
			e.yields = now
		}
		if now.Sub(e.yields) >= patiences*f.yield {
			return time.Time{}
		}
		return until
	}
	return time.Time{}
}
