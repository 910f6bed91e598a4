package reconcile

import (
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/constraint"
	"github.com/ohmcell/ohm/pkg/jobspec"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
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
//
// A node that no longer satisfies a constraint which must always hold is, for the tasks of
// that group, one that drains: they are moved at once, of whatever kind their job is.
//
// A task of a job with a disruption budget is drained when its placement says so, and goes then
// also if the drain ends meanwhile: the keeper gives up one after the other (InTurn).
func StopCause(j *cellstate.Job, p *cellstate.Placement, n *cellstate.Node) string {
	switch {
	case n != nil && int64(p.Revision) <= n.Facts.GetBootAfter():
		return task.NodeLost
	case p.GetEvictedBy() != "":
		return task.Preempted
	case j == nil || !j.Live(), !j.Current(p.Slot) && !stays(j, p.Slot):
		return task.Stop
	}
	spec := j.Record.GetSpec()
	group := j.Group(p.Slot.Group)
	switch {
	case !known(spec):
		return ""
	case group == nil:
		return task.Stop
	case spec.GetKind() != kindSystem && p.Slot.Index >= int(group.GetCount()):
		return task.Stop
	case j.Record.GetTimedOut():
		return task.TimedOut
	case spec.GetKind() == kindML && memberFailed(j):
		return task.Stop
	case p.GetReleased():
		return task.GangBroken
	case n != nil && n.Facts != nil && !holdsAlways(n, group):
		return task.Drained
	case p.GetDrained():
		return task.Drained
	case n == nil || !n.Intent.GetDrain():
		return ""
	case jobspec.RunsToEnd(spec) && n.Intent.GetDrainDeadline() != nil, spec.GetDisruption() != nil:
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

// InTurn says of a placement on a node whether a drain takes it as soon as the disruption
// budget of its job allows.
func InTurn(j *cellstate.Job, p *cellstate.Placement, n *cellstate.Node) bool {
	spec := j.Record.GetSpec()
	return n.Intent.GetDrain() && spec.GetDisruption() != nil && StopCause(j, p, n) == "" &&
		!(jobspec.RunsToEnd(spec) && n.Intent.GetDrainDeadline() != nil)
}

// holdsAlways says whether a node satisfies those of a group's constraints that must hold
// while its tasks run. What a constraint of a later release means is not known, and ends none.
func holdsAlways(n *cellstate.Node, g *ohmv1.Group) bool {
	for i, c := range g.GetConstraints() {
		if c.GetAlways() && constraint.Name(c.GetOp()) != "" {
			if _, ok := cellstate.Matches(n, g.GetConstraints()[i:i+1]); !ok {
				return false
			}
		}
	}
	return true
}

// memberFailed says whether a slot of the gang has spent its budget.
func memberFailed(j *cellstate.Job) bool {
	for _, t := range j.Tasks {
		if !j.Current(t.Slot) || t.Placement != nil {
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
