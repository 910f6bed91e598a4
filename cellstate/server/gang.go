package server

import (
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// tooLarge says why no cell on this store could ever start the gang, whatever its nodes.
func tooLarge(spec *ohmv1.JobSpec, limits cellstate.Limits) string {
	if min := spec.GetGang().GetMin(); limits.Claims > 0 && int(min) > limits.Claims {
		return fmt.Sprintf("gang.min: %d tasks must start as one, and the store commits at most %d at once; "+
			"lower gang.min, or raise etcd's --max-request-bytes and --max-txn-ops and start the servers again", min, limits.Claims)
	}
	return ""
}

// tooWide says why no choice of this cell's nodes could start the gang, though it has the
// room: the store commits over fewer nodes at once than it needs, even with the largest
// ones all empty. Where the cell has not the room, the gang waits for nodes, which may be
// larger than those that are there.
func tooWide(s *cellstate.Snapshot, spec *ohmv1.JobSpec, limits cellstate.Limits) string {
	least := int64(spec.GetGang().GetMin())
	if limits.Nodes == 0 || least <= int64(limits.Nodes) {
		return ""
	}
	var takes []int64
	all := int64(0)
	for n := range s.Nodes() {
		most := int64(0)
		for _, g := range spec.GetGroups() {
			most += mostTasks(n, g)
		}
		takes = append(takes, most)
		all += most
	}
	slices.Sort(takes)
	slices.Reverse(takes)
	few := int64(0)
	for _, n := range takes[:min(limits.Nodes, len(takes))] {
		few += n
	}
	if few >= least || all < least {
		return ""
	}
	return fmt.Sprintf("gang.min: %d tasks must start as one, and the store takes an atomic commit over at most %d nodes, on which there is room for %d at the very most; "+
		"lower gang.min, ask for less in each task, or raise etcd's --max-txn-ops and start the servers again", least, limits.Nodes, few)
}

// mostTasks is how many tasks of a group an empty node takes at the very most: no bound
// that a fit rule has is tighter than these.
func mostTasks(n *cellstate.Node, g *ohmv1.Group) int64 {
	if _, ok := cellstate.Matches(n, g.GetConstraints()); !ok || n.Facts == nil || cellstate.Lacks(n, g) != 0 {
		return 0
	}
	most := int64(g.GetCount())
	bound := func(has, wants int64) {
		if wants > 0 {
			most = min(most, has/wants)
		}
	}
	has, wants := n.Facts.GetCapacity(), g.GetResources()
	bound(has.GetCpuMilli(), wants.GetCpuMilli())
	bound(has.GetMemoryBytes(), wants.GetMemoryBytes())
	bound(has.GetDiskBytes(), wants.GetDiskBytes())
	if gpus := g.GetGpus(); gpus != nil {
		room, models := int64(0), map[string]int64{}
		for _, d := range n.Facts.GetGpus() {
			if milli, why := cellstate.ShareOn(d, gpus); why == "" {
				room += int64(1000 / milli)
				models[d.GetModel()]++
			}
		}
		if gpus.GetSameModel() {
			room = 0
			for _, devices := range models {
				room += devices / int64(gpus.GetCount()) * int64(gpus.GetCount())
			}
		}
		bound(room, int64(gpus.GetCount()))
	}
	return most
}
