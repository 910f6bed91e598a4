package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// What a drain does to a task first, and what comes after.
const (
	drainStop     = "Stop"
	drainWait     = "Wait"     // it may end by itself until the deadline
	drainStopLast = "StopLast" // when all tasks of lower precedence have gone
	drainInTurn   = "InTurn"   // as soon as its job's disruption budget allows
	drainStopping = "Stopping" // it is being stopped already

	drainReplaced = "Replaced" // some other node has room for it now
	drainPending  = "Pending"  // none has: it waits, and is tried again
	drainNone     = "None"     // its job does not want it any more, or only on this node
)

// maxDrain bounds what a client may ask for.
const maxDrain = 10 * 365 * 24 * time.Hour

func checkDrain(drain bool, within *durationpb.Duration) error {
	switch d := within.AsDuration(); {
	case within == nil:
	case !drain:
		return refuse(errInvalid, "a deadline goes only with a drain")
	case within.CheckValid() != nil || d < 0 || d > maxDrain:
		return refuse(errInvalid, "the deadline of a drain is not between now and in ten years")
	}
	return nil
}

// PlanDrain says what a drain would do to each task of a node, judged on the latest
// snapshot by the same rule by which agents are told.
func (n *nodes) PlanDrain(ctx context.Context, req *ohmv1.PlanDrainRequest) (*ohmv1.PlanDrainResponse, error) {
	if err := checkDrain(true, req.GetDrainWithin()); err != nil {
		return nil, err
	}
	snapshot, err := n.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	row := snapshot.Node(cellstate.NodeName(req.GetNode()))
	if row == nil {
		return nil, refuse(cellstate.ErrNotFound, "node %s not found", req.GetNode())
	}
	intent := &ohmv1.SetIntentRequest{Node: req.GetNode(), Drain: proto.Bool(true), DrainWithin: req.GetDrainWithin()}
	return &ohmv1.PlanDrainResponse{Steps: drainSteps(snapshot, row, changedIntent(row.Intent, intent, time.Now()))}, nil
}

// drainSteps are what would become of a node's tasks under an intent.
func drainSteps(s *cellstate.Snapshot, n *cellstate.Node, intent *ohmv1.Intent) (steps []*ohmv1.DrainStep) {
	drained, records := *n, *n.NodeRecords
	records.Intent = intent
	drained.NodeRecords = &records
	for _, p := range n.Placements() {
		j := s.Job(p.Slot.JobName())
		t := j.Task(p.Slot)
		step := &ohmv1.DrainStep{
			Namespace: p.Slot.Namespace, Task: p.Slot.Task(), Attempt: p.GetAttempt(),
			Kind: j.Record.GetSpec().GetKind(), State: task.Name(max(task.Assigned, t.Status.GetState())),
		}
		already := reconcile.StopCause(j, p, n)
		switch cause := reconcile.StopCause(j, p, &drained); {
		case already != "":
			step.Action = drainStopping
		case cause != "":
			step.Action = drainStop
		case j != nil && reconcile.InTurn(j, p, &drained):
			step.Action = drainInTurn
		case step.Kind == "system":
			step.Action = drainStopLast
		default:
			step.Action = drainWait
		}
		step.Next = drainNone
		if wanted := already == "" || already == task.Drained; wanted && step.Kind != "system" {
			step.Nodes = int32(roomElsewhere(s, n, j, p))
			step.Next = drainPending
			if step.Nodes > 0 {
				step.Next = drainReplaced
			}
		}
		step.Detail = drainDetail(s, step, j, p, intent)
		steps = append(steps, step)
	}
	order := map[string]int{drainStopping: 0, drainStop: 1, drainInTurn: 2, drainWait: 3, drainStopLast: 4}
	slices.SortStableFunc(steps, func(a, b *ohmv1.DrainStep) int {
		return cmp.Or(order[a.Action]-order[b.Action], cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Task, b.Task))
	})
	return steps
}

func drainDetail(s *cellstate.Snapshot, step *ohmv1.DrainStep, j *cellstate.Job, p *cellstate.Placement, intent *ohmv1.Intent) string {
	first := map[string]string{
		drainStopping: "is being stopped already", drainStop: "is stopped at once", drainStopLast: "is stopped when all others have gone",
	}[step.Action]
	if step.Action == drainWait {
		first = "may end by itself until " + intent.GetDrainDeadline().AsTime().Format(time.RFC3339) + ", then it is stopped"
	}
	if step.Action == drainInTurn {
		b, _ := s.Budget(j, p.Slot.Group)
		first = fmt.Sprintf("is stopped in its turn: at most %d of group %s may be down at a time, and %d are", b.Most, b.Group, b.Down)
	}
	overlaps := j.Record.GetSpec().GetStop().GetReplace() == reconcile.AtOnce
	switch {
	case step.Next == drainNone && step.Kind == "system":
		return first + "; it starts here again when the node is resumed"
	case step.Next == drainNone:
		return first + "; nothing takes its place"
	case step.Next == drainPending:
		return first + "; no other node has room for it now: it waits, with all its retries, until one has"
	case overlaps:
		return first + fmt.Sprintf("; another attempt starts elsewhere while it ends, of %s with room now", plural(step.Nodes, "node"))
	}
	return first + fmt.Sprintf("; another attempt starts elsewhere after its exit, of %s with room now", plural(step.Nodes, "node"))
}

func plural(n int32, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// roomElsewhere counts the other nodes that a placement's task could go to now, were it
// the only one. It is an answer for people; who decides is the scheduler.
func roomElsewhere(s *cellstate.Snapshot, n *cellstate.Node, j *cellstate.Job, p *cellstate.Placement) (nodes int) {
	group := j.Group(p.Slot.Group)
	for other := range s.Nodes() {
		if other.Name == n.Name || group == nil || !reconcile.Eligible(other, group) {
			continue
		}
		gpus, ok := cellstate.ChooseDevices(other.Facts, group.GetGpus(), func(id string) int32 { return 1000 - other.Used().GPUs[id] })
		if !ok {
			continue
		}
		fit, _ := cellstate.Admit(other, &cellstate.Txn{Claims: []cellstate.Claim{{
			Slot: p.Slot, Attempt: int(p.GetAttempt()) + 1, Node: other.Name,
			Resources: p.GetResources(), GPUs: gpus, Precedence: int(p.GetPrecedence()),
		}}})
		nodes += len(fit)
	}
	return nodes
}
