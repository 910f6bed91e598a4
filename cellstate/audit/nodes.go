package audit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// node checks that a new placement is on a node that was there and took tasks, and on
// devices that it had: L1.
func (r *revision) node(p *cellstate.Placement) {
	key := p.Slot.PlacementKey()
	n := r.before.Node(cellstate.NodeName(p.GetNode()))
	switch {
	case n == nil || n.Facts == nil:
		r.violated(L1, key, "node %s is not known", p.GetNode())
		return
	case n.Intent.GetIneligible() || n.Intent.GetDrain():
		r.violated(L1, key, "node %s took no new tasks", p.GetNode())
	}
	for _, bad := range badShares(n, p) {
		r.violated(L1, key, "%s", bad)
	}
}

// badShares names the shares of a placement that its node cannot give.
func badShares(n *cellstate.Node, p *cellstate.Placement) (bad []string) {
	for _, g := range p.GetGpus() {
		known := slices.ContainsFunc(n.Facts.GetGpus(), func(d *ohmv1.Device) bool { return d.GetId() == g.GetId() })
		if !known {
			bad = append(bad, fmt.Sprintf("node %s has no device %s", n.Name, g.GetId()))
		}
		if g.GetMilli() < 1 || g.GetMilli() > 1000 {
			bad = append(bad, fmt.Sprintf("a share of %dm of device %s", g.GetMilli(), g.GetId()))
		}
	}
	return bad
}

// capacity checks the nodes that the revision adds to: what grew must fit (L1). A node
// that has shrunk may be charged with more than it has.
func (r *revision) capacity() {
	added := map[cellstate.NodeName]*cellstate.Placement{}
	for _, p := range r.commits {
		added[cellstate.NodeName(p.GetNode())] = p
	}
	for _, name := range slices.Sorted(maps.Keys(added)) {
		n := r.after.Node(name)
		if n == nil || n.Facts == nil {
			continue // said already
		}
		before := &cellstate.Usage{}
		if was := r.before.Node(name); was != nil {
			before = was.Used()
		}
		key := added[name].Slot.PlacementKey()
		for _, d := range dimensions(n.Facts.GetCapacity(), before, n.Used()) {
			if d.after > d.before && d.after > d.capacity {
				r.violated(L1, key, "node %s has %s of %s, charged with %s", name, d.text(d.capacity), d.name, d.text(d.after))
			}
		}
		for _, p := range r.commits {
			if cellstate.NodeName(p.GetNode()) == name {
				r.owners(n, p)
			}
		}
	}
}

// owners checks that nobody else has the ports of a new placement, those that give way aside.
func (r *revision) owners(n *cellstate.Node, p *cellstate.Placement) {
	for _, port := range p.GetPorts() {
		for _, o := range n.Placements() {
			// Of two that come together the second is the violation.
			both := o.Revision == p.Revision && o.Slot.Compare(p.Slot) > 0
			if o.Slot != p.Slot && o.GetEvictedBy() == "" && !both && owns(o, port.GetNumber()) {
				r.violated(L1, p.Slot.PlacementKey(), "port %d of node %s belongs to %s", port.GetNumber(), n.Name, o.Slot)
			}
		}
	}
}

func owns(p *cellstate.Placement, port int32) bool {
	return slices.ContainsFunc(p.GetPorts(), func(o *ohmv1.Port) bool { return o.GetNumber() == port })
}

// dimension is one amount of a node before and after a revision.
type dimension struct {
	name                    string
	capacity, before, after int64
	text                    func(int64) string
}

// dimensions are the node's amounts and, with a capacity of 1000 each, its devices.
func dimensions(have *ohmv1.Resources, before, after *cellstate.Usage) []dimension {
	out := []dimension{
		{"cpu", have.GetCpuMilli(), before.CPUMilli, after.CPUMilli, resource.FormatCPU},
		{"memory", have.GetMemoryBytes(), before.MemoryBytes, after.MemoryBytes, resource.FormatBytes},
		{"disk", have.GetDiskBytes(), before.DiskBytes, after.DiskBytes, resource.FormatBytes},
	}
	for _, id := range slices.Sorted(maps.Keys(after.GPUs)) {
		out = append(out, dimension{"device " + id, 1000, int64(before.GPUs[id]), int64(after.GPUs[id]),
			func(milli int64) string { return fmt.Sprintf("%dm", milli) }})
	}
	return out
}

// fences checks the chain: every put that comes with a fence compared what the fence
// was, and all that came with it are here.
func (r *revision) fences() {
	for _, name := range slices.Sorted(maps.Keys(r.bumps)) {
		var known cellstate.Revision
		if n := r.before.Node(name); n != nil {
			known = n.Fence
		}
		for _, c := range r.bumps[name] {
			fence := c.Record().(interface{ GetFence() *ohmv1.Fence }).GetFence()
			switch {
			case fence == nil:
				r.violated(Fences, c.Key, "the record came without the fence of node %s", name)
			case cellstate.Revision(fence.GetCompared()) != known:
				r.violated(Fences, c.Key, "compared the fence of node %s with %d; it was %d", name, fence.GetCompared(), known)
			case int(fence.GetRecords()) != len(r.bumps[name]):
				r.violated(Fences, c.Key, "%d records came with the fence of node %s, it says %d", len(r.bumps[name]), name, fence.GetRecords())
			}
		}
	}
}

// standing checks what the oldest state shows of one node by itself. A node may have
// shrunk before, so an amount counts only if it was added to after the node last changed.
func (a *Auditor) standing(n *cellstate.Node) {
	at := a.state.Revision()
	for _, p := range n.Placements() {
		key := p.Slot.PlacementKey()
		if cellstate.SlotOf(p.GetSlot()) != p.Slot {
			a.violated(at, L2, key, "the record is of slot %s", cellstate.SlotOf(p.GetSlot()))
		}
		if t := a.state.Job(p.Slot.JobName()).Task(p.Slot); len(t.Ended) > 0 && t.Ended[len(t.Ended)-1].Attempt >= int(p.GetAttempt()) {
			a.violated(at, L2, key, "attempt %d, but attempt %d has ended", p.GetAttempt(), t.Ended[len(t.Ended)-1].Attempt)
		}
		if n.Facts == nil || p.Revision < n.FactsRevision {
			continue
		}
		for _, bad := range badShares(n, p) {
			a.violated(at, L1, key, "%s", bad)
		}
		for _, port := range p.GetPorts() {
			for _, o := range n.Placements() {
				if o.Slot.Compare(p.Slot) < 0 && o.GetEvictedBy() == "" && p.GetEvictedBy() == "" && owns(o, port.GetNumber()) {
					a.violated(at, L1, key, "port %d of node %s belongs to %s", port.GetNumber(), n.Name, o.Slot)
				}
			}
		}
	}
	for _, d := range dimensions(n.Facts.GetCapacity(), &cellstate.Usage{}, n.Used()) {
		if d.after <= d.capacity || n.Facts == nil {
			continue
		}
		if i := slices.IndexFunc(n.Placements(), func(p *cellstate.Placement) bool { return adds(p, d.name) && p.Revision > n.FactsRevision }); i >= 0 {
			a.violated(at, L1, n.Placements()[i].Slot.PlacementKey(), "node %s has %s of %s, charged with %s", n.Name, d.text(d.capacity), d.name, d.text(d.after))
		}
	}
}

// adds says whether a placement surely added to a dimension at its revision: one that
// evicts or gives way may have left it as it was.
func adds(p *cellstate.Placement, dimension string) bool {
	if len(p.GetVictims()) > 0 || p.GetEvictedBy() != "" {
		return false
	}
	switch dimension {
	case "cpu":
		return p.GetResources().GetCpuMilli() > 0
	case "memory":
		return p.GetResources().GetMemoryBytes() > 0
	case "disk":
		return p.GetResources().GetDiskBytes() > 0
	}
	return slices.ContainsFunc(p.GetGpus(), func(g *ohmv1.DeviceShare) bool { return "device "+g.GetId() == dimension })
}
