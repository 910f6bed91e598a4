package place

import (
	"cmp"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// below is the precedence below which tasks may give way for a need: its own, or one more where
// namespaces share the cell by weights and with the need, or all of its gang, its own is within
// its due. Then equals give way, too, that others have borrowed; the commit judges by the same rule.
func (r *Round) below(q *Request, need reconcile.Need) int {
	f := r.t.snapshot.Fair()
	if f == nil {
		return q.Precedence
	}
	r.holds = map[string]cellstate.Amounts{}
	hold := func(namespace string, a cellstate.Amounts) { r.holds[namespace] = r.holds[namespace].Plus(a) }
	for i := range r.taken {
		hold(r.taken[i].job.Name.Namespace, cellstate.GroupAmounts(r.taken[i].group))
	}
	for p := range r.evicted {
		hold(p.Slot.Namespace, cellstate.Amounts{}.Minus(p.Amounts()))
	}
	wants := r.holds[q.of.job.Name.Namespace].Plus(r.together(need))
	if !f.Within(q.of.job.Name.Namespace, wants) {
		return q.Precedence
	}
	return q.Precedence + 1
}

// together is what a need asks for or, if it is of a gang, all that is asked for the gang now
// less what is claimed of it.
func (r *Round) together(need reconcile.Need) cellstate.Amounts {
	job := need.Slot.JobName()
	for _, w := range r.work {
		if w.Job.Name != job || w.Job.Record.GetSpec().GetKind() != "ml" {
			continue
		}
		var all cellstate.Amounts
		for _, n := range w.Needs {
			all = all.Plus(cellstate.GroupAmounts(n.Group))
		}
		for i := range r.taken {
			if r.taken[i].job == w.Job {
				all = all.Minus(cellstate.GroupAmounts(r.taken[i].group))
			}
		}
		return all
	}
	return cellstate.GroupAmounts(need.Group)
}

// lends says whether an equal may give way to a request: it is of another namespace that holds
// more than its due.
func (r *Round) lends(q *Request, p *cellstate.Placement) bool {
	name := p.Slot.Namespace
	return name != q.of.job.Name.Namespace && !r.t.snapshot.Fair().Within(name, r.holds[name])
}

// due says whether the equals among the victims of a request, which is within its due, give back
// no more than what is borrowed.
func (r *Round) due(q *Request, victims []victim) bool {
	var all, equals []*cellstate.Placement
	for _, v := range victims {
		all = append(all, v.Placement)
		if int(v.GetPrecedence()) == q.Precedence {
			equals = append(equals, v.Placement)
		}
	}
	return len(equals) == 0 || r.t.snapshot.Fair().Reclaims(q.of.job.Name.Namespace, r.holds[q.of.job.Name.Namespace], all, equals, r.holds)
}

// tries bounds the search of lawful on one node.
const tries = 256

// lawful are victims of whom the equals give back no more than is borrowed, where those that
// cost least do not: as few equals as will do. view has the room of all who are able.
func (r *Round) lawful(q *Request, view Candidate, able []victim) *Eviction {
	view = view.copy()
	var equals, chosen []victim
	for _, v := range able {
		if int(v.GetPrecedence()) == q.Precedence {
			equals = append(equals, v)
			view.give(v.Evictable, -1)
		} else {
			chosen = append(chosen, v)
		}
	}
	slices.SortFunc(equals, func(a, b victim) int {
		return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.work, b.work), a.Slot.Compare(b.Slot))
	})
	left := tries
	var add func(from, most int) bool // so many more of the equals from there on
	add = func(from, most int) bool {
		if r.t.fits(q, &view) {
			return true
		}
		for i := from; i < len(equals) && most > 0 && left > 0; i++ {
			left--
			chosen = append(chosen, equals[i])
			view.give(equals[i].Evictable, 1)
			if r.due(q, chosen) && add(i+1, most-1) { // with more of them it would be no less than is borrowed
				return true
			}
			chosen = chosen[:len(chosen)-1]
			view.give(equals[i].Evictable, -1)
		}
		return false
	}
	for most := 1; most <= len(equals) && left > 0; most++ {
		if add(0, most) {
			return spare(r.t, q, view, chosen, func(a, b victim) int { return cmp.Compare(b.work, a.work) })
		}
	}
	return nil
}
