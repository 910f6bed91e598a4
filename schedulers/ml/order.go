package ml

import (
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// orders bounds the orders of a gang's groups that are tried: those of four groups.
const orders = 24

// near says whether tasks of the gang are to be near to others of it, not only all of them to
// all: then it matters in which order they come.
func (g *gang) near() bool {
	if g.nearby == nil {
		spec := g.work.Job.Record.GetSpec()
		near := slices.ContainsFunc(spec.GetGroups(), func(of *ohmv1.Group) bool {
			return slices.ContainsFunc(cellstate.Rules(spec, of), func(r *cellstate.Rule) bool {
				return r.Kind == cellstate.Together && r.Required && !r.Gang &&
					slices.ContainsFunc(spec.GetGroups(), func(o *ohmv1.Group) bool { return r.Selects(spec, o.GetName()) })
			})
		})
		g.nearby = &near
	}
	return *g.nearby
}

// placeOrdered places the gang in the first order of its groups in which it fits whole; the
// largest group is first, unless another one has to stand before it.
func (g *gang) placeOrdered() (*cellstate.Txn, []schedulers.Unplaced) {
	if !g.near() {
		return g.place()
	}
	first, trial := g.order, g.trial
	var groups []string
	for _, n := range first {
		if !slices.Contains(groups, n.Slot.Group) {
			groups = append(groups, n.Slot.Group)
		}
	}
	g.trial = true
	best, most := first, -1
	permute(groups, orders, func(groups []string) bool {
		g.order = nil
		for _, name := range groups {
			for _, n := range first {
				if n.Slot.Group == name {
					g.order = append(g.order, n)
				}
			}
		}
		mark := g.round.Mark()
		txn, unplaced := g.place()
		fit := g.fit
		if txn != nil { // it starts
			fit = len(first) + len(txn.Claims)
		}
		g.round.Undo(mark)
		if fit > most {
			best, most = g.order, fit
		}
		if txn != nil && len(unplaced) == 0 {
			best = g.order
			return true
		}
		return false
	})
	g.order, g.trial = best, trial
	return g.place()
}

// permute calls f with at most so many orders of the names, the given one first, until it
// says that it is done.
func permute(names []string, most int, f func([]string) (done bool)) {
	order := slices.Clone(names)
	var next func(i int) bool
	next = func(i int) bool {
		if i == len(order) {
			most--
			return f(slices.Clone(order)) || most <= 0
		}
		for k := i; k < len(order); k++ {
			moved := order[k]
			copy(order[i+1:k+1], order[i:k])
			order[i] = moved
			if next(i + 1) {
				return true
			}
			copy(order[i:k], order[i+1:k+1])
			order[k] = moved
		}
		return false
	}
	next(0)
}
