package server

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

const (
	watchEvery = 20 * time.Millisecond // at most; changes in between are sent as one
	watchAgain = 5 * time.Second       // a message may change with time alone
)

// Watch sends the status of the job, or of one of its runs, now and whenever it has changed, until
// that is done.
func (s *jobs) Watch(req *ohmv1.GetJobRequest, stream grpc.ServerStreamingServer[ohmv1.JobStatus]) error {
	name := jobName(req.GetNamespace(), req.GetJob())
	if _, err := s.snapshot(stream.Context()); err != nil {
		return err
	}
	var last *ohmv1.JobStatus
	return s.eachChange(stream.Context(), name, func(at *cellstate.Snapshot, row *cellstate.Job) (done bool, err error) {
		_, status, err := findRun(at, name, req.GetRun(), time.Now())
		if err != nil {
			return true, err
		}
		if !sameStatus(last, status) {
			if err := stream.Send(status); err != nil {
				return true, err
			}
			last = status
		}
		return isDone(status.GetState()), nil
	})
}

func isDone(state string) bool {
	return state == reconcile.Succeeded || state == reconcile.Failed || state == reconcile.Stopped || state == reconcile.Skipped
}

// eachChange calls look with the job's row now and whenever it, or its scheduler's, has
// changed, until look is done. It ends with not found when the job has gone.
func (s *jobs) eachChange(ctx context.Context, name cellstate.JobName, look func(*cellstate.Snapshot, *cellstate.Job) (bool, error)) error {
	var lastJob *cellstate.Job
	var lastScheduler *cellstate.Scheduler
	again := time.NewTicker(watchAgain)
	defer again.Stop()
	for due := true; ; {
		snapshot, newer := s.cfg.Mirror.Watch()
		row := snapshot.Job(name)
		if row == nil || row.Record == nil && len(row.Runs) == 0 && row.Schedule == nil {
			return refuse(cellstate.ErrNotFound, "job %s not found", name)
		}
		scheduler := snapshot.Scheduler(row.Record.GetSpec().GetScheduler())
		if due || row != lastJob || scheduler != lastScheduler {
			if done, err := look(snapshot, row); done || err != nil {
				return err
			}
			lastJob, lastScheduler, due = row, scheduler, false
			if err := pause(ctx, watchEvery); err != nil {
				return err
			}
		}
		select {
		case <-newer:
		case <-again.C:
			due = true
		case <-s.gateway.closing:
			return errClosing
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pause waits for d.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sameStatus says whether two statuses tell the same; time and revision pass anyway.
func sameStatus(a, b *ohmv1.JobStatus) bool {
	if a == nil {
		return false
	}
	a = proto.CloneOf(a)
	a.Elapsed, a.Revision, a.Ended = b.GetElapsed(), b.GetRevision(), b.GetEnded()
	return proto.Equal(a, b)
}
