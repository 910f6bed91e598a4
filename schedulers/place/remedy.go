package place

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
)

// remedy says for people what would let the node that misses by least take a task; "" where
// nothing short of another job file would.
func (t *Table) remedy(q *Request, w refusal) string {
	c := &t.candidates[w.nearest]
	node := c.Node.Name
	switch w.reason {
	case ReasonNotReady:
		return fmt.Sprintf("the agent of node %s comes back", node)
	case string(cellstate.ReasonIneligible):
		return fmt.Sprintf("ohm node resume %s", node)
	case string(cellstate.ReasonDiskFull):
		return fmt.Sprintf("room on the disk of node %s", node)
	case string(cellstate.ReasonConstraint):
		if _, ok := c.Node.Label(w.dimension); !ok {
			return fmt.Sprintf("a label %s on node %s", w.dimension, node)
		}
	case string(cellstate.ReasonHold):
		return fmt.Sprintf("the end of the hold on node %s", node)
	case string(cellstate.ReasonPort):
		if w.dimension != cellstate.DynamicPorts {
			return fmt.Sprintf("port %s free on node %s", w.dimension, node)
		}
		return fmt.Sprintf("dynamic ports free on node %s", node)
	case string(cellstate.ReasonResources):
		return c.lacks(q, w)
	}
	return ""
}

// lacks says how much a candidate needs of a dimension beyond what is free or, where it has
// less than that in all, which node would do.
func (c *Candidate) lacks(q *Request, w refusal) string {
	has, node := c.Node.Facts.GetCapacity(), c.Node.Name
	more := func(want, has int64, text func(int64) string, what string) string {
		if want > has {
			return fmt.Sprintf("a node with %s%s", text(want), what)
		}
		return fmt.Sprintf("needs %s more%s on %s", text(want-w.free), what, node)
	}
	switch w.dimension {
	case "cpu":
		return more(q.CPUMilli, has.GetCpuMilli(), resource.FormatCPU, " of cpu")
	case "memory":
		return more(q.MemoryBytes, has.GetMemoryBytes(), resource.FormatBytes, " of memory")
	case "disk":
		return more(q.DiskBytes, has.GetDiskBytes(), resource.FormatBytes, " of disk")
	}
	kind := ""
	if len(q.Models) > 0 {
		kind = " of " + strings.Join(q.Models, " or ")
	}
	suitable, most := map[int]int{}, 0 // of devices, by model where all are to be of one
	for i := range c.GPUs {
		if g := &c.GPUs[i]; q.on(g) != never && q.SameModel {
			suitable[g.model]++
		} else if q.on(g) != never {
			suitable[0]++
		}
	}
	for _, n := range suitable {
		most = max(most, n)
	}
	switch {
	case most < q.GPUs:
		return fmt.Sprintf("a node with %d such %s%s", q.GPUs, gpusWord(q.GPUs), kind)
	case q.GPUs == 1 && q.ShareBytes == 0 && q.Share < wholeGPU:
		return fmt.Sprintf("needs %s more of one GPU%s on %s", resource.FormatShare(q.Share-int32(w.free)), kind, node)
	}
	missing := q.GPUs - freeDevices(q, c)
	return fmt.Sprintf("needs %d more %s%s with room on %s", missing, gpusWord(missing), kind, node)
}

func gpusWord(n int) string {
	if n == 1 {
		return "GPU"
	}
	return "GPUs"
}
