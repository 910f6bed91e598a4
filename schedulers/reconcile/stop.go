package reconcile

import (
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
)

// StopCause says why a placement should end: a cause of pkg/task, or "" while it is
// wanted. n is the row of its node, j of its job; either may be nil. The server turns
// it into what the agent is told.
//
// What stood on a machine that has booted since is over, whatever else is wanted of it.
//
// A drain with a deadline leaves tasks that end by themselves alone until then (the keeper
// removes the deadline when it has passed). It stops the tasks of system jobs too, but as the
// last: such a task stays while one of lower precedence stands on the node, because the
// others may need it to end well. (Precedence, not kind, so that two of them can never wait
// for each other.)
func StopCause(j *cellstate.Job, p *cellstate.Placement, n *cellstate.Node) string {
	switch {
	case n != nil && int64(p.Revision) <= n.Facts.GetBootAfter():
		return task.NodeLost
	case p.GetEvictedBy() != "":
		return task.Preempted
	case j == nil || !j.Live() || p.Slot.Version != j.Record.GetVersion():
		return task.Stop
	}
	spec := j.Record.GetSpec()
	group := j.Group(p.Slot.Group)
	switch {
	case group == nil:
		return task.Stop
	case spec.GetKind() != kindSystem && p.Slot.Index >= int(group.GetCount()):
		return task.Stop
	case spec.GetKind() == kindML && memberFailed(j):
		return task.Stop
	case n == nil || !n.Intent.GetDrain():
		return ""
	case runsToEnd(spec) && n.Intent.GetDrainDeadline() != nil:
		return ""
	}
	if spec.GetKind() == kindSystem {
		for _, other := range n.Placements() {
			if other.GetPrecedence() < p.GetPrecedence() {
				return ""
			}
		}
	}
	return task.Drained
}

// memberFailed says whether a slot of the gang has spent its budget.
func memberFailed(j *cellstate.Job) bool {
	for _, t := range j.Tasks {
		if t.Slot.Version != j.Record.GetVersion() || t.Placement != nil {
			continue
		}
		if g := j.Group(t.Slot.Group); g == nil || t.Slot.Index >= int(g.GetCount()) {
			continue
		}
		if p, _ := (Limits{}).untilSuccess(t.Ended, j.Record.GetSpec(), time.Time{}); p == failed {
			return true
		}
	}
	return false
}
