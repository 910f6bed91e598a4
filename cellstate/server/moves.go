package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ohmcell/ohm/cellstate"
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
