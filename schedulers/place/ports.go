package place

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// portDetail tells people who has a port of a candidate, or how few dynamic ones it has.
func portDetail(q *Request, c *Candidate, dimension string) string {
	node := c.Node.Name
	if dimension == cellstate.DynamicPorts {
		r := c.Node.Facts.GetDynamicPorts()
		if r == nil {
			return fmt.Sprintf("node %s gives none", node)
		}
		return fmt.Sprintf("such as node %s, which gives those from %d to %d", node, r.GetFirst(), r.GetLast())
	}
	port, err := strconv.ParseInt(dimension, 10, 32)
	if err != nil {
		return fmt.Sprintf("such as node %s", node)
	}
	number := int32(port)
	owner, owned := c.Node.Used().Ports[number]
	switch {
	case owned:
		return fmt.Sprintf("such as by %s on node %s", owner.Task(), node)
	case slices.Contains(c.Node.Facts.GetReservedPorts(), number):
		return fmt.Sprintf("reserved on node %s", node)
	case slices.Contains(q.Busy, reconcile.BusyPort{Node: node, Port: number}):
		return fmt.Sprintf("such as by a process outside of the cell on node %s", node)
	}
	return fmt.Sprintf("such as by a task that is placed just now on node %s", node)
}
