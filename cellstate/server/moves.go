package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/rebalance"
)

// usualMoves are as many as a plan has where the request does not say, and mostMoves as it may have.
const (
	usualMoves = 100
	mostMoves  = 1000
)

// PlanMoves says which running tasks would be better off elsewhere, judged on the latest
// snapshot by the code that places tasks.
func (s *insight) PlanMoves(ctx context.Context, req *ohmv1.PlanMovesRequest) (*ohmv1.PlanMovesResponse, error) {
	if req.GetMost() < 0 || req.GetMost() > mostMoves {
		return nil, refuse(errInvalid, "a plan has between 1 and %d moves", mostMoves)
	}
	most := cmp.Or(int(req.GetMost()), usualMoves)
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var plan rebalance.Plan
	if req.GetJob() == "" {
		plan, err = rebalance.Defrag(ctx, snapshot, most)
	} else {
		var row *cellstate.Job
		if row, err = find(snapshot, jobName(req.GetNamespace(), req.GetJob())); err != nil {
			return nil, err
		}
		plan, err = rebalance.Spread(ctx, snapshot, row.Name, most)
	}
	if errors.Is(err, rebalance.ErrNoService) {
		return nil, refuse(errPrecondition, "job %s: %v", req.GetJob(), err)
	}
	if err != nil {
		return nil, err
	}
	return &ohmv1.PlanMovesResponse{
		Moves: moveSteps(snapshot, plan.Moves), Before: movesGain(plan.Before), After: movesGain(plan.After), SnapshotRevision: int64(snapshot.Revision()),
	}, nil
}

// Rebalance makes one step.
func (s *jobs) Rebalance(ctx context.Context, req *ohmv1.RebalanceRequest) (*ohmv1.RebalanceResponse, error) {
	if req.GetAtOnce() < 0 {
		return nil, refuse(errInvalid, "at least one task may be down at a time")
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	resp, w, err := s.step(ctx, snapshot, req)
	if err != nil || resp.GetMoved() == nil {
		return resp, err
	}
	_, err = s.write(ctx, func(at *cellstate.Snapshot) (cellstate.Write, error) {
		if at != snapshot { // a step is decided on what is there, and may have been made already
			resp, w, err = s.step(ctx, at, req)
		}
		return w, err
	})
	return resp, err
}

// step decides on the next step, and how to write it down.
func (s *jobs) step(ctx context.Context, at *cellstate.Snapshot, req *ohmv1.RebalanceRequest) (*ohmv1.RebalanceResponse, cellstate.Write, error) {
	row, err := find(at, jobName(req.GetNamespace(), req.GetJob()))
	if err != nil {
		return nil, cellstate.Write{}, err
	}
	plan, err := rebalance.Spread(ctx, at, row.Name, 1)
	if errors.Is(err, rebalance.ErrNoService) {
		return nil, cellstate.Write{}, refuse(errPrecondition, "job %s: %v", req.GetJob(), err)
	}
	if err != nil {
		return nil, cellstate.Write{}, err
	}
	resp := &ohmv1.RebalanceResponse{Now: movesGain(plan.Before)}
	for _, g := range row.Record.GetSpec().GetGroups() {
		b := at.BudgetOf(row, g.GetName(), max(1, int(req.GetAtOnce())))
		if most, bound := cellstate.MostDown(row.Record.GetSpec(), g); bound {
			b.Most = min(b.Most, most)
		}
		switch {
		case len(plan.Moves) > 0 && plan.Moves[0].Placement.Slot.Group == g.GetName() && b.Left() == 0:
			resp.Waits = fmt.Sprintf("%d of at most %d tasks of %s are down", b.Down, b.Most, b.Text())
			return resp, cellstate.Write{}, nil
		case len(plan.Moves) > 0 && plan.Moves[0].Placement.Slot.Group == g.GetName():
			resp.Moved = moveSteps(at, plan.Moves)[0]
			return resp, cellstate.GiveUp(at, b, []*cellstate.Placement{plan.Moves[0].Placement}), nil
		}
	}
	if n := moving(row); n > 0 {
		resp.Waits = fmt.Sprintf("%s moving", plural(int32(n), "task"))
		return resp, cellstate.Write{}, nil
	}
	resp.Done = true
	return resp, cellstate.Write{}, nil
}

// moving counts a job's tasks that were given up and are not placed again.
func moving(j *cellstate.Job) (n int) {
	for _, t := range j.Tasks {
		last := len(t.Ended) - 1
		switch {
		case !j.Current(t.Slot):
		case t.Placement != nil:
			if t.Placement.GetDrained() {
				n++
			}
		case last >= 0 && t.Ended[last].GetStatus().GetCause() == task.Drained:
			n++
		}
	}
	return n
}

func moveSteps(s *cellstate.Snapshot, moves []rebalance.Move) (steps []*ohmv1.MoveStep) {
	for _, m := range moves {
		step := &ohmv1.MoveStep{
			Namespace: m.Placement.Slot.Namespace, Task: m.Placement.Slot.Task(), Attempt: m.Placement.GetAttempt(),
			Kind: m.Job.Record.GetSpec().GetKind(), From: m.Placement.GetNode(), To: string(m.To),
		}
		if b, ok := s.Budget(m.Job, m.Placement.Slot.Group); ok {
			step.Budget = fmt.Sprintf("%d of at most %d down", b.Down, b.Most)
		}
		steps = append(steps, step)
	}
	return steps
}

func movesGain(m rebalance.Measure) *ohmv1.MovesGain {
	return &ohmv1.MovesGain{MostTasks: int32(m.Most), FewestTasks: int32(m.Fewest), StrandedGpuMilli: m.StrandedGPU, EmptyNodes: int32(m.Empty)}
}
