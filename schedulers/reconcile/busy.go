package reconcile

import (
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
)

// BusyPort is a port of a node that somebody outside of the cell had a moment ago, so that
// a task of the job could not be started there.
type BusyPort struct {
	Node cellstate.NodeName
	Port int32
}

// Busy says whether a port of a node is not to be chosen for the need, although nobody in
// the cell owns it.
func (n Need) Busy(node cellstate.NodeName, port int32) bool {
	return slices.Contains(n.BusyPorts, BusyPort{node, port})
}

// busyPorts are what attempts of the job have found busy lately, and when the first of
// them may be tried again. Nothing of it is stored but the ends of those attempts: each
// job finds out for itself, at the price of one attempt, which is not charged.
func (l Limits) busyPorts(j *cellstate.Job, now time.Time) (busy []BusyPort, until time.Time) {
	asks := false
	for _, g := range j.Record.GetSpec().GetGroups() {
		asks = asks || len(g.GetPorts()) > 0
	}
	if !asks {
		return nil, time.Time{}
	}
	for _, t := range j.Tasks {
		for _, e := range slices.Backward(t.Ended) {
			over := endOf(e).Add(l.PortBusy)
			if !over.After(now) {
				break
			}
			if e.GetStatus().GetCause() != task.PortBusy {
				continue
			}
			until = earlier(until, over)
			for _, port := range e.GetStatus().GetBusyPorts() {
				if b := (BusyPort{cellstate.NodeName(e.GetPlacement().GetNode()), port}); !slices.Contains(busy, b) {
					busy = append(busy, b)
				}
			}
		}
	}
	return busy, until
}

// replaced is when a slot whose last attempts found their ports busy may have its next one:
// the first time at once, since another node or port will mostly do, then later and later,
// so that whoever ignores BusyPorts is not fast at it. ok is false if the last attempt
// ended otherwise.
func (l Limits) replaced(ended []*cellstate.Ended) (at time.Time, ok bool) {
	n := 0
	for i := len(ended) - 1; i >= 0 && ended[i].GetStatus().GetCause() == task.PortBusy; i-- {
		n++
	}
	switch n {
	case 0:
		return time.Time{}, false
	case 1:
		return time.Time{}, true
	}
	return endOf(newest(ended)).Add(l.backoff(n - 1)), true
}
