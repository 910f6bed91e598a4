package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Roll says how the update of a service goes on.
func (s *jobs) Roll(ctx context.Context, req *ohmv1.RollRequest) (*ohmv1.JobStatus, error) {
	name, now := jobName(req.GetNamespace(), req.GetJob()), time.Now()
	snapshot, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		row, err := find(at, name)
		if err != nil {
			return w, err
		}
		if !row.Live() || row.Record.GetSpec().GetKind() != "service" {
			return w, refuse(errPrecondition, "job %s is not a live service, which alone can be updated step by step", name)
		}
		if req.GetAction() == "revert" {
			return revert(at, row, now)
		}
		next, err := rolled(row, req.GetAction(), now)
		if err != nil {
			return w, err
		}
		return cellstate.Write{
			Guards:  []cellstate.Guard{{Key: cellstate.JobKey(name), Revision: row.Revision}},
			Records: []cellstate.Record{{Key: cellstate.RolloutKey(name), Value: next, Read: row.RolloutRevision}},
		}, nil
	})
	if err != nil {
		return nil, err
	}
	row, err := find(snapshot, name)
	if err != nil {
		return nil, err
	}
	return reconcile.Status(snapshot, row, now), nil
}

// rolled is a job's rollout after an action of somebody who may say how it goes on.
func rolled(row *cellstate.Job, action string, now time.Time) (*ohmv1.Rollout, error) {
	is := row.Rollout.GetState()
	if is == "" || is == reconcile.RolloutDone {
		return nil, refuse(errPrecondition, "job %s is not being updated", row.Name)
	}
	next := proto.CloneOf(row.Rollout)
	next.Progress = timestamppb.New(now) // its deadline begins anew
	switch action {
	case "pause":
		if is != reconcile.RolloutRunning {
			return nil, refuse(errPrecondition, "the update of job %s does not run: it is %s", row.Name, is)
		}
		next.State = reconcile.RolloutPaused
	case "resume":
		if is == reconcile.RolloutRunning {
			return nil, refuse(errPrecondition, "the update of job %s runs already", row.Name)
		}
		next.State, next.Message = reconcile.RolloutRunning, ""
	case "promote":
		lacks := reconcile.Lacks(row, now)
		switch canary := row.Record.GetSpec().GetUpdate().GetCanary(); {
		case canary == 0 || row.Rollout.GetPromoted() || row.Rollout.GetReverts():
			return nil, refuse(errPrecondition, "the update of job %s waits for nobody's word", row.Name)
		case is != reconcile.RolloutRunning:
			return nil, refuse(errPrecondition, "the update of job %s does not run: it is %s", row.Name, is)
		case lacks != "":
			return nil, refuse(errPrecondition, "the canary of job %s is not well yet: %s", row.Name, lacks)
		}
		next.Promoted = true
	default:
		return nil, refuse(errInvalid, "action %q is not one of pause, resume, promote, revert", action)
	}
	return next, nil
}

// revert takes a job back to the newest version of which all tasks were well.
func revert(at *cellstate.Snapshot, row *cellstate.Job, now time.Time) (w cellstate.Write, err error) {
	next, rollout, err := reconcile.Revert(row, now)
	if err != nil {
		return w, refuse(errPrecondition, "job %s: %v", row.Name, err)
	}
	addJob(&w, at, row.Name, next, rollout, now)
	if cellstate.Barred(row.Record.GetSpec(), next.GetSpec()) {
		w.Records = append(w.Records, cellstate.Barrier(at, "rules of job "+row.Name.Name))
	}
	return w, nil
}
