package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/constraint"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// refusal collects the candidates that a filter refused over one dimension.
type refusal struct {
	reason, dimension string
	nodes             int32
	nearest           int   // the candidate that missed by least, the first of equals
	free              int64 // what it has
}

// Explain says why the nodes do not take a request: each is counted once, under the
// first filter that refuses it. Nodes that would take it, and those that are not among
// the asked ones (nil: all are), are counted under rest. Most nodes first.
func (r *Round) Explain(q *Request, asked []int, rest *ohmv1.Reason) []*ohmv1.Reason {
	why, refused := r.t.refusals(r.t.class(q), q, asked)
	var reasons []*ohmv1.Reason
	for _, w := range why {
		reasons = append(reasons, &ohmv1.Reason{Reason: w.reason, Dimension: w.dimension, Nodes: w.nodes, Detail: r.t.detail(q, w), Remedy: r.t.remedy(q, w)})
	}
	if left := int32(len(r.t.candidates)) - refused; left > 0 {
		rest.Nodes = left
		reasons = append(reasons, rest)
	}
	slices.SortStableFunc(reasons, func(a, b *ohmv1.Reason) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return reasons
}

// refusals asks the filters. While nothing changes, a class is asked once for all nodes, one
// without rules between tasks.
func (t *Table) refusals(k *class, q *Request, asked []int) (why []refusal, refused int32) {
	once := asked == nil && len(q.rules) == 0
	if once && k.explained == t.clock {
		why = k.why
	} else {
		if asked == nil {
			for i := range t.candidates {
				filters := t.Filters
				if k.lasts[i] == yes {
					filters = t.passing // the first that fails is one of them
				}
				why = t.ask(filters, q, i, why)
			}
		}
		if once {
			k.why, k.explained, t.read = why, t.clock, t.clock
		}
		for _, i := range slices.Compact(slices.Sorted(slices.Values(asked))) {
			why = t.ask(t.Filters, q, i, why)
		}
	}
	for _, w := range why {
		refused += w.nodes
	}
	return why, refused
}

// ask adds the refusal of one candidate by some of the filters, if there is one.
func (t *Table) ask(filters []Filter, q *Request, i int, why []refusal) []refusal {
	for _, f := range filters {
		dimension, ok := f.Check(q, &t.candidates[i])
		if ok {
			continue
		}
		reason := f.Name()
		n := 0 // of a few
		for n < len(why) && (why[n].reason != reason || why[n].dimension != dimension) {
			n++
		}
		if n == len(why) {
			why = append(why, refusal{reason: reason, dimension: dimension, nearest: -1})
		}
		w := &why[n]
		w.nodes++
		if free := freeOf(q, &t.candidates[i], dimension); w.nearest < 0 || free > w.free {
			w.nearest, w.free = i, free
		}
		break
	}
	return why
}

// freeOf is what a candidate has left in a dimension, in the unit in which q asks.
func freeOf(q *Request, c *Candidate, dimension string) int64 {
	switch dimension {
	case "cpu":
		return max(0, c.FreeCPU)
	case "memory":
		return max(0, c.FreeMemory)
	case "disk":
		return max(0, c.FreeDisk)
	case "gpus":
		if q.Share == wholeGPU && q.ShareBytes == 0 {
			return int64(freeDevices(q, c))
		}
		largest := int64(0)
		for i := range c.GPUs {
			if q.on(&c.GPUs[i]) != never {
				largest = max(largest, int64(c.GPUs[i].Free))
			}
		}
		return largest
	}
	return 0
}

// detail tells people the nearest miss.
func (t *Table) detail(q *Request, w refusal) string {
	c := &t.candidates[w.nearest]
	node := c.Node.Name
	switch w.reason {
	case ReasonNotReady:
		return fmt.Sprintf("no live session, such as node %s", node)
	case string(cellstate.ReasonIneligible):
		return fmt.Sprintf("drained or kept free by the operator, such as node %s", node)
	case string(cellstate.ReasonDiskFull):
		return fmt.Sprintf("such as node %s: %s", node, c.Node.Facts.GetDiskFull())
	case ReasonHollow:
		return fmt.Sprintf("such as node %s; a constraint with the key hollow asks for one", node)
	case string(cellstate.ReasonConstraint):
		failed, _ := cellstate.Matches(c.Node, q.Constraints)
		has, ok := c.Node.Label(w.dimension)
		if !ok {
			return fmt.Sprintf("wanted: %s; node %s has no %s", constraint.Text(failed), node, w.dimension)
		}
		return fmt.Sprintf("wanted: %s; node %s has %s", constraint.Text(failed), node, has)
	case string(cellstate.ReasonRule):
		return ruleDetail(q, w.dimension, w.nearest, node)
	case string(cellstate.ReasonCannot):
		return fmt.Sprintf("driver %s, such as node %s", cmp.Or(c.Node.Facts.GetDriver(), "unknown"), node)
	case string(cellstate.ReasonPort):
		return portDetail(q, c, w.dimension)
	case string(cellstate.ReasonHold):
		return fmt.Sprintf("room is held for a transaction that kept losing, such as on node %s", node)
	}
	if w.reason != string(cellstate.ReasonResources) {
		return fmt.Sprintf("such as node %s", node)
	}
	switch w.dimension {
	case "cpu":
		return fmt.Sprintf("largest free: %s of %s cores on node %s", resource.FormatCPU(w.free), resource.FormatCPU(q.CPUMilli), node)
	case "memory":
		free, wanted := resource.RoundPair(w.free, q.MemoryBytes)
		return fmt.Sprintf("largest free: %s of %s on node %s", free, wanted, node)
	case "disk":
		free, wanted := resource.RoundPair(w.free, q.DiskBytes)
		return fmt.Sprintf("largest free: %s of %s on node %s", free, wanted, node)
	}
	return deviceDetail(q, c, w.free)
}
