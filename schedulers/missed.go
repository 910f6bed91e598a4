package schedulers

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// A slow policy may never lose and starve all the same: where more is wanted than there is,
// a node is full again by the time at which the policy looks, and "no room" is no conflict.
// So a refusal counts as a loss, too, if room for the slot came and went while the decision
// was made: if on the newest snapshot there is a node that carries a placement of another
// scheduler, newer than the snapshot of the decision and of no higher precedence, without
// which the slot would fit there. Who decides quickly is hardly ever in that case: to him
// room that comes is there at the next look.
const (
	missedGroups = 100 // of one decision: those that are first in the queue
	missedTries  = 8   // placements that are taken away to see whether a slot fits
)

// missed counts as losses what was refused in a decision during which there was room.
func (r *Runner) missed(s *cellstate.Snapshot, unplaced []Unplaced, open map[cellstate.Slot]reconcile.Need) {
	now, _ := r.Cell.Watch()
	if len(unplaced) == 0 || now.RoomRevision() <= s.Revision() {
		return
	}
	changes, same := now.NodeChanges(s)
	if !same {
		return // nodes came or went: the next decision sees them
	}
	var changed []*cellstate.Node
	for _, n := range changes {
		changed = append(changed, n)
	}
	for _, u := range unplaced[:min(len(unplaced), missedGroups)] {
		e := r.queue.jobs[u.Job]
		if e == nil || e.job == nil || len(u.Slots) == 0 {
			continue
		}
		need, ok := open[u.Slots[0]]
		if !ok {
			continue
		}
		node, taker := r.took(s, now, changed, e.job, need)
		if taker == nil {
			continue
		}
		for _, slot := range u.Slots {
			if _, ok := open[slot]; ok {
				e.lose(slot, now.Revision(), r.Clock(), r.Times.RetryMost, r.chance.Float64())
				e.lostOn(slot, node, false)
			}
		}
		e.lost = fmt.Sprintf("room for %s/%d on node %s came and went to %s of scheduler %s while it was decided on",
			need.Slot.Group, need.Slot.Index, node, taker.Slot.Task(), taker.GetScheduler())
	}
}

// took is a placement that has taken room since the snapshot of a decision, and its node.
func (r *Runner) took(s, now *cellstate.Snapshot, changed []*cellstate.Node, job *cellstate.Job, need reconcile.Need) (cellstate.NodeName, *cellstate.Placement) {
	tries := 0
	for _, n := range changed {
		if need.Node != "" && need.Node != n.Name || !reconcile.Eligible(n, need.Group) {
			continue
		}
		for _, p := range n.Unsorted() {
			if p.Revision <= s.Revision() || p.GetScheduler() == r.Name || p.GetPrecedence() > job.Record.GetSpec().GetPrecedence() || !enough(n, p, need) {
				continue
			}
			if tries++; tries > missedTries {
				return "", nil
			}
			if fitsWithout(now, n.Name, p, job, need) {
				return n.Name, p
			}
		}
	}
	return "", nil
}

// enough says whether a node would have the processors and the memory that a need wants
// without a placement: that rules most of them out at no cost.
func enough(n *cellstate.Node, p *cellstate.Placement, need reconcile.Need) bool {
	have, used, gone, want := n.Facts.GetCapacity(), n.Used(), p.GetResources(), need.Group.GetResources()
	return used.CPUMilli-gone.GetCpuMilli()+want.GetCpuMilli() <= have.GetCpuMilli() &&
		used.MemoryBytes-gone.GetMemoryBytes()+want.GetMemoryBytes() <= have.GetMemoryBytes()
}

func fitsWithout(now *cellstate.Snapshot, node cellstate.NodeName, p *cellstate.Placement, job *cellstate.Job, need reconcile.Need) bool {
	without, _, err := now.Apply(cellstate.Batch{Revision: now.Revision(), Changes: []cellstate.Change{
		{Key: p.Slot.PlacementKey(), Deleted: true, Revision: now.Revision()},
	}})
	if err != nil {
		return false
	}
	u := &starving{job: job, txn: &cellstate.Txn{}}
	u.on(without)
	return len(u.fill(without.Node(node), []reconcile.Need{need})) == 0
}
