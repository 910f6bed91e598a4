package keeper

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
)

// turns are the tasks that drains wait to take, of groups with a disruption budget, by the
// budget's scope.
type turns map[string]*turn

type turn struct {
	budget cellstate.Budget
	wait   []*cellstate.Placement
}

func (t turns) add(s *cellstate.Snapshot, j *cellstate.Job, p *cellstate.Placement) {
	scope := cellstate.Budget{Job: j.Name, Group: p.Slot.Group}.Scope()
	if t[scope] == nil {
		b, ok := s.Budget(j, p.Slot.Group)
		if !ok {
			return // the job is over: its tasks end anyway
		}
		t[scope] = &turn{budget: b}
	}
	t[scope].wait = append(t[scope].wait, p)
}

// mostTurns bounds how many tasks of a group one write gives up.
const mostTurns = 32

// writes give up what the budgets leave: what is down already, which costs nothing, and then
// the first by slot. Whoever else gives up a task of the group meanwhile makes the write fail,
// and the next look decides anew.
func (t turns) writes(s *cellstate.Snapshot) (writes []cellstate.Write) {
	for _, scope := range slices.Sorted(maps.Keys(t)) {
		turn := t[scope]
		left := turn.budget.Left()
		slices.SortFunc(turn.wait, func(a, b *cellstate.Placement) int {
			rank := func(p *cellstate.Placement) int {
				if s.Up(p) {
					return 1
				}
				return 0
			}
			return cmp.Or(rank(a)-rank(b), a.Slot.Compare(b.Slot))
		})
		var give []*cellstate.Placement
		for _, p := range turn.wait {
			if s.Up(p) {
				if left == 0 {
					break
				}
				left--
			}
			if give = append(give, p); len(give) == mostTurns {
				break
			}
		}
		if len(give) > 0 {
			writes = append(writes, cellstate.GiveUp(s, turn.budget, give))
		}
	}
	return writes
}
