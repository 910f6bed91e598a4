package audit

import (
	"maps"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// holds checks what a revision adds to nodes against the room that is held there: a claim
// or a hold must fit beside all holds of its precedence and above but its own, and a
// commit leaves no hold of its transaction on its nodes.
func (r *revision) holds() {
	for _, name := range slices.Sorted(maps.Keys(r.bumps)) {
		n := r.after.Node(name)
		if n == nil || n.Facts == nil {
			continue
		}
		before := &cellstate.Usage{}
		if was := r.before.Node(name); was != nil {
			before = was.Used()
		}
		for _, h := range n.Holds {
			if h.Revision == r.after.Revision() {
				r.beside(n, before, n.Used(), h, h.Hold, cellstate.HoldKey(name, cellstate.TxnID(h.GetTxn())))
			}
		}
		for _, p := range r.commits {
			if cellstate.NodeName(p.GetNode()) != name {
				continue
			}
			if i := slices.IndexFunc(n.Holds, func(h *cellstate.Hold) bool { return h.GetTxn() == p.GetTxn() }); i >= 0 {
				r.violated(Holds, cellstate.HoldKey(name, cellstate.TxnID(p.GetTxn())), "transaction %s has committed on node %s, and its hold is still there", p.GetTxn(), name)
				continue
			}
			r.beside(n, before, r.withoutAbove(n, p), p, nil, p.Slot.PlacementKey())
		}
	}
}

// beside checks that what was added fits beside the holds that keep it off. own is the
// hold itself, if that is what was added.
func (r *revision) beside(n *cellstate.Node, before, after *cellstate.Usage, added interface {
	GetTxn() string
	GetPrecedence() int32
	GetPorts() []*ohmv1.Port
}, own *ohmv1.Hold, key cellstate.Key) {
	kept := false
	for _, h := range n.Holds {
		if h.GetTxn() != added.GetTxn() && h.GetPrecedence() >= added.GetPrecedence() {
			for _, port := range added.GetPorts() {
				if slices.ContainsFunc(h.GetPorts(), func(o *ohmv1.Port) bool { return o.GetNumber() == port.GetNumber() }) {
					r.violated(Holds, key, "port %d of node %s is held for transaction %s", port.GetNumber(), n.Name, h.GetTxn())
				}
			}
			before, after, kept = plus(before, h.GetResources(), h.GetGpus(), 1), plus(after, h.GetResources(), h.GetGpus(), 1), true
		}
	}
	if own != nil {
		after = plus(after, own.GetResources(), own.GetGpus(), 1)
	}
	if !kept && own == nil {
		return // L1 alone
	}
	for _, d := range dimensions(n.Facts.GetCapacity(), before, after) {
		if d.after > d.before && d.after > d.capacity {
			r.violated(Holds, key, "node %s has %s of %s, charged with %s, holds included", n.Name, d.text(d.capacity), d.name, d.text(d.after))
		}
	}
}

// withoutAbove is what a node is charged with, less the new placements of higher
// precedence than p: those may have come after it, and into held room.
func (r *revision) withoutAbove(n *cellstate.Node, p *cellstate.Placement) *cellstate.Usage {
	used := n.Used()
	for _, o := range r.commits {
		if o.GetNode() == p.GetNode() && o.GetPrecedence() > p.GetPrecedence() {
			used = plus(used, o.GetResources(), o.GetGpus(), -1)
		}
	}
	return used
}

func plus(u *cellstate.Usage, r *ohmv1.Resources, gpus []*ohmv1.DeviceShare, times int32) *cellstate.Usage {
	sum := &cellstate.Usage{
		CPUMilli:    u.CPUMilli + int64(times)*r.GetCpuMilli(),
		MemoryBytes: u.MemoryBytes + int64(times)*r.GetMemoryBytes(),
		DiskBytes:   u.DiskBytes + int64(times)*r.GetDiskBytes(),
		GPUs:        maps.Clone(u.GPUs),
	}
	for _, g := range gpus {
		if sum.GPUs == nil {
			sum.GPUs = map[string]int32{}
		}
		sum.GPUs[g.GetId()] += times * g.GetMilli()
	}
	return sum
}
