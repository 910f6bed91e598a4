package schedulers

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// holdsEmpty says whether a node may take a need and, if nothing stood on it, would hold it.
func holdsEmpty(n *cellstate.Node, need reconcile.Need) bool {
	return reconcile.Eligible(n, need.Group) && tooLarge(n, need.Group) == ""
}

// tooLarge names a dimension of which a group asks for more than all that a node has.
func tooLarge(n *cellstate.Node, g *ohmv1.Group) string {
	have, want := n.Facts.GetCapacity(), g.GetResources()
	switch {
	case want.GetCpuMilli() > have.GetCpuMilli():
		return "cpu"
	case want.GetMemoryBytes() > have.GetMemoryBytes():
		return "memory"
	case want.GetDiskBytes() > have.GetDiskBytes():
		return "disk"
	case int(g.GetGpus().GetCount()) > devicesOf(n, g):
		return "gpus"
	}
	return ""
}

// devicesOf counts the GPUs of a node that a task of a group would take together, sick ones
// included.
func devicesOf(n *cellstate.Node, g *ohmv1.Group) (count int) {
	models := map[string]int{}
	for _, d := range n.Facts.GetGpus() {
		if _, why := cellstate.ShareOn(d, g.GetGpus()); why == "" {
			model := ""
			if g.GetGpus().GetSameModel() {
				model = d.GetModel()
			}
			models[model]++
			count = max(count, models[model])
		}
	}
	return count
}

// never is never for an unplaced group; of a refusal that does not count, because nodes were
// kept off, it says nothing.
func (r *Runner) never(s *cellstate.Snapshot, u Unplaced, kept bool) string {
	e := r.queue.jobs[u.Job]
	if kept || e == nil || e.job == nil {
		return ""
	}
	if g := e.job.Group(u.Group); g != nil {
		return never(s, g)
	}
	return ""
}

// never says why no node of the cell could ever take a task of the group, whatever ends
// there, is let go, or comes back; empty if one could, and where the cell has no nodes yet.
func never(s *cellstate.Snapshot, g *ohmv1.Group) string {
	nodes, matching := 0, 0
	excluded, short := map[string]int{}, map[string]int{}
	var most ohmv1.Resources
	gpus := 0
	for n := range s.Nodes() {
		if n.Facts == nil {
			continue
		}
		nodes++
		if failed, ok := cellstate.Matches(n, g.GetConstraints()); !ok {
			excluded[failed.GetKey()]++
			continue
		}
		if lacks := cellstate.Lacks(n, g); lacks != 0 {
			excluded[lacks.String()]++
			continue
		}
		matching++
		d := tooLarge(n, g)
		if d == "" {
			return ""
		}
		short[d]++
		have := n.Facts.GetCapacity()
		most.CpuMilli = max(most.CpuMilli, have.GetCpuMilli())
		most.MemoryBytes = max(most.MemoryBytes, have.GetMemoryBytes())
		most.DiskBytes = max(most.DiskBytes, have.GetDiskBytes())
		gpus = max(gpus, devicesOf(n, g))
	}
	if nodes == 0 {
		return ""
	}
	if matching == 0 {
		return fmt.Sprintf("none of the %d nodes of the cell is such as it asks for (%s)", nodes, mostOften(excluded))
	}
	want := g.GetResources()
	switch d := mostOften(short); d {
	case "cpu":
		return fmt.Sprintf("it asks for %s of cpu; the largest node that it may run on has %s", resource.FormatCPU(want.GetCpuMilli()), resource.FormatCPU(most.CpuMilli))
	case "memory":
		return fmt.Sprintf("it asks for %s of memory; the largest node that it may run on has %s", resource.FormatBytes(want.GetMemoryBytes()), resource.FormatBytes(most.MemoryBytes))
	case "disk":
		return fmt.Sprintf("it asks for %s of disk; the largest node that it may run on has %s", resource.FormatBytes(want.GetDiskBytes()), resource.FormatBytes(most.DiskBytes))
	default:
		return fmt.Sprintf("it asks for %d GPUs%s; no node that it may run on has more than %d", g.GetGpus().GetCount(), devicesText(g.GetGpus()), gpus)
	}
}

// devicesText says what kind of GPUs a group asks for.
func devicesText(q *ohmv1.GPURequest) (text string) {
	if models := q.GetModels(); len(models) > 0 {
		text = fmt.Sprintf(" of model %v", models)
	}
	if q.GetSameModel() {
		text += " of one model"
	}
	if most := max(q.GetMemoryBytes(), q.GetShareBytes()); most > 0 {
		text += fmt.Sprintf(" with %s of memory", resource.FormatBytes(most))
	}
	return text
}

// mostOften is the key with the highest count, the first by name of equals.
func mostOften(counts map[string]int) (most string) {
	for key, n := range counts {
		if most == "" || n > counts[most] || n == counts[most] && key < most {
			most = key
		}
	}
	return most
}
