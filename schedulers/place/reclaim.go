package place

import (
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
