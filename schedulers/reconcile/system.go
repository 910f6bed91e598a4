package reconcile

import (
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Eligible is cellstate.Eligible: whether a node may be given a new task of a group, room
// left aside.
func Eligible(n *cellstate.Node, g *ohmv1.Group) bool { return cellstate.Eligible(n, g) }

// systemSlots are the slots of a system job's group: one for each eligible node, and
// those that are live elsewhere (a node that is not eligible any more keeps what it has
// until it drains).
//
// Indexes are stable: a live task's index stays with its node; a node whose task ended
// gets the same index again, so that its failures are remembered; any other node takes
// the smallest index that nobody has.
func (l Limits) systemSlots(s *cellstate.Snapshot, j *cellstate.Job, g *ohmv1.Group, now time.Time) []slot {
	index := map[cellstate.NodeName]int{}
	taken := map[int]bool{}
	older := map[cellstate.NodeName]bool{} // nodes with a task of another version
	bind := func(node cellstate.NodeName, i int) {
		if _, has := index[node]; !has && !taken[i] {
			index[node], taken[i] = i, true
		}
	}
	of := tasksOf(j, g)
	for _, t := range of {
		if t.Placement != nil && j.Current(t.Slot) {
			bind(cellstate.NodeName(t.Placement.GetNode()), t.Slot.Index)
		}
	}
	for _, t := range of {
		if t.Placement != nil && !j.Current(t.Slot) {
			older[cellstate.NodeName(t.Placement.GetNode())] = true
			bind(cellstate.NodeName(t.Placement.GetNode()), t.Slot.Index)
		}
	}
	for _, t := range of {
		if t.Placement == nil && len(t.Ended) > 0 && j.Current(t.Slot) {
			if node := lastNode(t); s.Node(node) != nil {
				bind(node, t.Slot.Index)
			}
		}
	}
	next := 0
	var slots []slot
	for n := range s.Nodes() {
		i, has := index[n.Name]
		if !has {
			if !Eligible(n, g) {
				continue
			}
			for taken[next] {
				next++
			}
			i = next
			bind(n.Name, i)
		}
		at := slot{Slot: slotOf(j, g, i), group: g, node: n.Name}
		at.task = j.Task(at.Slot)
		switch {
		case at.task != nil && at.task.Placement != nil:
			at.phase = live
		case !Eligible(n, g):
			continue
		case older[n.Name]:
			at.phase = blocked
		case lastNode(at.task) == n.Name:
			at.phase, at.until = l.forEver(at.task.Ended, now)
		}
		slots = append(slots, at)
	}
	return slots
}

// tasksOf are what is stored of a group's slots, of all versions.
func tasksOf(j *cellstate.Job, g *ohmv1.Group) (of []*cellstate.Task) {
	for _, t := range j.Tasks {
		if t.Slot.Group == g.GetName() {
			of = append(of, t)
		}
	}
	return of
}

// lastNode is where the slot's newest ended attempt was; empty if there is none.
func lastNode(t *cellstate.Task) cellstate.NodeName {
	if e := newest(ended(t)); e != nil {
		return cellstate.NodeName(e.GetPlacement().GetNode())
	}
	return ""
}
