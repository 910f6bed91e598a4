package place

import (
	"cmp"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
)

// spends is the disruption budget of which it spends to evict a placement, with what this round
// has spent on top; nil: of none.
func (r *Round) spends(p *cellstate.Placement) *cellstate.Budget {
	s := r.t.snapshot
	if !s.Bound(p) || !s.Up(p) {
		return nil
	}
	of := budgetOf{p.Slot.JobName(), p.Slot.Group}
	if b := r.budgets[of]; b != nil {
		return b
	}
	b, _ := s.Budget(s.Job(of.job), of.group)
	if r.budgets == nil {
		r.budgets = map[budgetOf]*cellstate.Budget{}
	}
	r.budgets[of] = &b
	return &b
}

type budgetOf struct {
	job   cellstate.JobName
	group string
}

// within are those of some victims, by budget, that may go at once: of each budget as many as it
// leaves, those of the least work. It sorts each budget's victims so that they come first.
func within(bound map[*cellstate.Budget][]victim) (able []victim) {
	for b, victims := range bound {
		slices.SortFunc(victims, func(x, y victim) int { return cmp.Or(cmp.Compare(x.work, y.work), x.Slot.Compare(y.Slot)) })
		able = append(able, victims[:min(b.Left(), len(victims))]...)
	}
	slices.SortFunc(able, func(x, y victim) int { return x.Slot.Compare(y.Slot) })
	return able
}
