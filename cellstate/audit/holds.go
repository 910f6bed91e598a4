package audit

import (
	"maps"
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// holds checks what a revision adds to nodes against the room that is held there: a claim
// or a hold must fit beside all holds of its precedence and above but its own and, unless it
// evicts, those that start only after its end; a reservation beside them alone; and a commit
// leaves no hold of its transaction on its nodes.
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
			if h.Revision != r.after.Revision() {
				continue
			}
			add := added{Txn: h.GetTxn(), Job: cellstate.SlotOf(h.GetSlot()).JobName(), Precedence: int(h.GetPrecedence()), ports: h.GetPorts(), hold: h}
			if h.GetReserves() {
				r.beside(n, &cellstate.Usage{}, &cellstate.Usage{}, add, cellstate.HoldKey(name, cellstate.TxnID(h.GetTxn())))
			} else {
				r.beside(n, before, n.Used(), add, cellstate.HoldKey(name, cellstate.TxnID(h.GetTxn())))
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
			add := added{Txn: p.GetTxn(), Job: p.Slot.JobName(), Precedence: int(p.GetPrecedence()), ports: p.GetPorts(), evicts: len(p.GetVictims()) > 0}
			if end := p.GetLatestEnd(); end != nil {
				add.Ends = end.AsTime()
			}
			r.beside(n, before, r.withoutAbove(n, p), add, p.Slot.PlacementKey())
		}
	}
}

// added is what a revision has added to a node.
type added struct {
	Txn        string
	Job        cellstate.JobName
	Precedence int
	Ends       time.Time // zero: nobody knows
	ports      []*ohmv1.Port
	evicts     bool
	hold       *cellstate.Hold // that it is; nil: it is a placement
}

// beside checks that what was added fits beside the holds that keep it off.
func (r *revision) beside(n *cellstate.Node, before, after *cellstate.Usage, add added, key cellstate.Key) {
	kept, reserves := false, add.hold != nil && add.hold.GetReserves()
	for _, k := range n.Kept() {
		h := k.Hold
		if !h.Binds(add.Txn, add.Job, add.Precedence, add.Ends) {
			continue
		}
		if add.evicts && h.GetReserves() {
			r.violated(Holds, key, "transaction %s evicts on node %s, where room is reserved by transaction %s", add.Txn, n.Name, h.GetTxn())
		}
		for _, port := range add.ports {
			if slices.ContainsFunc(h.GetPorts(), func(o *ohmv1.Port) bool { return o.GetNumber() == port.GetNumber() }) {
				r.violated(Holds, key, "port %d of node %s is held for transaction %s", port.GetNumber(), n.Name, h.GetTxn())
			}
		}
		resources, gpus := k.Resources, k.GPUs
		if reserves { // it counts on all that is there being over, as the other does
			resources, gpus = h.GetResources(), h.GetGpus()
		}
		before, after, kept = plus(before, resources, gpus, 1), plus(after, resources, gpus, 1), true
	}
	if add.hold != nil {
		after = plus(after, add.hold.GetResources(), add.hold.GetGpus(), 1)
	}
	if !kept && add.hold == nil {
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
