package rebalance

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
)

// ErrNoService says of a job that its tasks are not spread, so that there is nothing to even out.
var ErrNoService = errors.New("only the tasks of services are spread over the nodes; those of other jobs stay where they are (for the whole cell: ohm node defrag)")

// sources is how many nodes of a job are looked at for one move, those with most of its tasks.
const sources = 16

// Spread plans how to even out a service: a task moves from a node with many of the job's tasks
// to the node that the policy chooses for it now, if that has then fewer of them than the first had. At
// most so many moves.
func Spread(ctx context.Context, s *cellstate.Snapshot, name cellstate.JobName, most int) (Plan, error) {
	j := s.Job(name)
	if j == nil || !j.Live() || j.Record.GetSpec().GetKind() != "service" {
		return Plan{}, ErrNoService
	}
	t := newTrial(s)
	for len(t.moves) < most {
		moved, err := t.even(ctx, name)
		if err != nil {
			return Plan{}, err
		}
		if !moved {
			break
		}
	}
	return Plan{Moves: t.moves, Before: spreadOf(s, name), After: spreadOf(t.snapshot, name)}, nil
}

// even makes one move that evens a job out, if there is one.
func (t *trial) even(ctx context.Context, name cellstate.JobName) (moved bool, err error) {
	count := tasksByNode(t.snapshot, name)
	var nodes []cellstate.NodeName
	for n, tasks := range count {
		if tasks > 1 {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b cellstate.NodeName) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	for _, n := range nodes[:min(len(nodes), sources)] {
		groups := map[string]bool{} // that were tried: one task is like another
		for _, p := range t.movable(t.snapshot.Node(n)) {
			if p.Slot.JobName() != name || groups[p.Slot.Group] {
				continue
			}
			groups[p.Slot.Group] = true
			next := t.clone()
			ok, err := next.move(ctx, p, nil)
			if err != nil {
				return false, err
			}
			if ok && count[next.moves[len(next.moves)-1].To]+1 < count[n] {
				*t = *next
				return true, nil
			}
		}
	}
	return false, nil
}

// tasksByNode counts a job's live tasks.
func tasksByNode(s *cellstate.Snapshot, name cellstate.JobName) map[cellstate.NodeName]int {
	count := map[cellstate.NodeName]int{}
	for _, t := range s.Job(name).Tasks {
		if t.Placement != nil {
			count[cellstate.NodeName(t.Placement.GetNode())]++
		}
	}
	return count
}

// spreadOf measures how evenly a job's tasks stand on the nodes that one of its groups may be on.
func spreadOf(s *cellstate.Snapshot, name cellstate.JobName) (m Measure) {
	count, first := tasksByNode(s, name), true
	for n := range s.Nodes() {
		may := count[n.Name] > 0
		for _, g := range s.Job(name).Record.GetSpec().GetGroups() {
			may = may || cellstate.Eligible(n, g)
		}
		if !may {
			continue
		}
		if tasks := count[n.Name]; first {
			m.Most, m.Fewest, first = tasks, tasks, false
		} else {
			m.Most, m.Fewest = max(m.Most, tasks), min(m.Fewest, tasks)
		}
	}
	return m
}
