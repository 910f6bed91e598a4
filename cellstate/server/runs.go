package server

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// findRun is the job's row and the status of one of its runs; 0: of the one that its record is of.
func findRun(s *cellstate.Snapshot, name cellstate.JobName, run int64, now time.Time) (*cellstate.Job, *ohmv1.JobStatus, error) {
	row := s.Job(name)
	if row == nil || row.Record == nil && row.Schedule == nil && run == 0 {
		return nil, nil, refuse(cellstate.ErrNotFound, "job %s not found", name)
	}
	status, ok := reconcile.RunStatus(s, row, run, now)
	if !ok {
		return nil, nil, refuse(cellstate.ErrNotFound, "run %d of job %s not found; `ohm job history %s` lists those that are known", run, name, name.Name)
	}
	return row, status, nil
}

// nextRun adds to w another run of a job, of which run says what and why. It begins at once
// where no other run goes on or waits; else it waits.
func nextRun(w *cellstate.Write, at *cellstate.Snapshot, run *ohmv1.Job, now time.Time) (sub *ohmv1.Submitted, begins bool, err error) {
	name := cellstate.JobNameOf(run.GetSpec())
	if run.Digest, err = digestOf(run.GetSpec()); err != nil {
		return nil, false, err
	}
	row := at.Job(name)
	if row == nil {
		row = &cellstate.Job{Name: name}
	}
	sub = &ohmv1.Submitted{Namespace: name.Namespace, Job: name.Name}
	record := cellstate.Guard{Key: cellstate.JobKey(name), Revision: row.Revision}
	if was, number := requested(row, run.GetRequestId()); was != nil {
		if !bytes.Equal(was.GetDigest(), run.GetDigest()) || was.GetAgain() != run.GetAgain() {
			return nil, false, refuse(errReused, "request id %q was used before to submit job %s with other content", run.GetRequestId(), name)
		}
		sub.Run, sub.Version, sub.Unchanged, sub.Waits = number, was.GetVersion(), true, was.GetVersion() == 0
		w.Guards = append(w.Guards, record)
		return sub, false, nil
	}
	sub.Run = reconcile.NewestRun(row) + 1
	waiting := row.WaitingRuns()
	if len(waiting) == 0 && (row.Record == nil || row.Record.GetDone() != nil) {
		next := reconcile.Begin(row, sub.Run, run)
		sub.Version = next.GetVersion()
		addJob(w, at, name, next, nil, now)
		return sub, true, nil
	}
	if was := row.Record.GetSpec(); row.Live() && !jobspec.RunsToEnd(was) {
		return nil, false, changeable(name, was, run.GetSpec())
	}
	if len(waiting) >= reconcile.MaxWaitingRuns {
		return nil, false, refuse(errFull, "queue full: %d runs of job %s wait for their turn already; try again when some of them have ended, or end them with `ohm stop %s`", len(waiting), name, name.Name)
	}
	sub.Waits = true
	w.Guards = append(w.Guards, record)
	w.Records = append(w.Records, cellstate.Record{Key: cellstate.RunKey(name, sub.Run), Value: &ohmv1.Run{Job: run}})
	return sub, false, nil
}

// requested is the run that a request id has begun, and its number; nil if none is known.
func requested(row *cellstate.Job, id string) (*ohmv1.Job, int64) {
	if id == "" {
		return nil, 0
	}
	if r := row.Record; r.GetRequestId() == id || slices.Contains(r.GetMoreRequestIds(), id) {
		return r, reconcile.RunOf(row)
	}
	for _, r := range row.Runs {
		if r.GetJob().GetRequestId() == id {
			return r.GetJob(), r.Number
		}
	}
	return nil, 0
}

// Again begins another run of what a job has run before: of its newest run, or of another.
func (s *jobs) Again(ctx context.Context, req *ohmv1.AgainRequest) (*ohmv1.SubmitResponse, error) {
	name, now := jobName(req.GetNamespace(), req.GetJob()), time.Now()
	if len(req.GetRequestId()) > maxRequestID {
		return nil, refuse(errInvalid, "the request id is %d bytes long, more than %d", len(req.GetRequestId()), maxRequestID)
	}
	resp := &ohmv1.SubmitResponse{}
	snapshot, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		row := at.Job(name)
		if row == nil || reconcile.NewestRun(row) == 0 && row.Schedule == nil {
			return w, refuse(cellstate.ErrNotFound, "job %s not found", name)
		}
		next, err := again(at, row, req, now)
		if err != nil {
			return w, err
		}
		if next.After, err = (&follower{at: at}).after(next.GetSpec()); err != nil {
			return w, err
		}
		submitted, begins, err := nextRun(&w, at, next, now)
		if err != nil {
			return w, err
		}
		if begins {
			submitted.Notices = nobodyCan(at, next.GetSpec())
			if cellstate.Barred(row.Record.GetSpec(), next.GetSpec()) {
				w.Records = append(w.Records, cellstate.Barrier(at, "rules of job "+name.Name))
			}
		}
		resp.Jobs = []*ohmv1.Submitted{submitted}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	resp.Revision = int64(snapshot.Revision())
	return resp, nil
}

// again is the run that does another one once more.
func again(at *cellstate.Snapshot, row *cellstate.Job, req *ohmv1.AgainRequest, now time.Time) (*ohmv1.Job, error) {
	newest := reconcile.NewestRun(row)
	if was, _ := requested(row, req.GetRequestId()); was.GetAgain() > 0 {
		newest = was.GetAgain() // a repeat: it means what it meant
	}
	number := cmp.Or(req.GetRun(), newest)
	was, succeeded := row.Record, []*ohmv1.Indexes(nil)
	if r := row.Run(number); r != nil && number != reconcile.RunOf(row) {
		was, succeeded = r.GetJob(), r.GetSucceeded()
	} else if number == reconcile.RunOf(row) && req.GetOnlyFailed() && was.GetDone() != nil {
		succeeded = reconcile.SlotsDone(at, row, now)
	} else if number == 0 && row.Schedule != nil { // it has not run yet
		was = &ohmv1.Job{Spec: row.Schedule.GetSpec()}
	} else if number != reconcile.RunOf(row) {
		return nil, refuse(cellstate.ErrNotFound, "run %d of job %s not found; `ohm job history %s` lists those that are known", number, row.Name, row.Name.Name)
	}
	if !jobspec.RunsToEnd(was.GetSpec()) {
		return nil, refuse(errPrecondition, "job %s is of kind %s, which has no runs that end by themselves; submit its file", row.Name, was.GetSpec().GetKind())
	}
	next := &ohmv1.Job{Spec: proto.CloneOf(was.GetSpec()), RequestId: req.GetRequestId(), SubmitTime: timestamppb.New(now), Again: number}
	if !req.GetOnlyFailed() {
		return next, nil
	}
	switch state := was.GetDone().GetState(); {
	case was.GetSpec().GetKind() == "ml":
		return nil, refuse(errPrecondition, "job %s is a gang, of which all tasks run or none; leave out only-failed", row.Name)
	case state == "":
		return nil, refuse(errPrecondition, "run %d of job %s has not ended, so nobody knows yet which of its tasks fail", number, row.Name)
	case state == reconcile.Succeeded && !slices.ContainsFunc(was.GetDone().GetGroups(), func(g *ohmv1.GroupCounts) bool { return g.GetFailed() > 0 }):
		return nil, refuse(errPrecondition, "in run %d of job %s no task failed", number, row.Name)
	}
	next.Succeeded = succeeded
	return next, nil
}

// History tells the runs of a job, the newest first.
func (s *jobs) History(ctx context.Context, req *ohmv1.HistoryRequest) (*ohmv1.HistoryResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	name, now := jobName(req.GetNamespace(), req.GetJob()), time.Now()
	row := snapshot.Job(name)
	if row == nil || reconcile.NewestRun(row) == 0 {
		return nil, refuse(cellstate.ErrNotFound, "job %s not found", name)
	}
	if req.GetRun() != 0 {
		if _, _, err := findRun(snapshot, name, req.GetRun(), now); err != nil {
			return nil, err
		}
	}
	return &ohmv1.HistoryResponse{Runs: reconcile.History(snapshot, row, req.GetRun(), now)}, nil
}

// isTold says whether what is kept of the run that a job's record is of, which is over, stands
// already.
func isTold(row *cellstate.Job) bool {
	return row.Record.GetDone() != nil && row.Run(reconcile.RunOf(row)) != nil
}

// mostTold bounds the records of one write beside its jobs'.
const mostTold = 40

// tellRuns writes what is kept of runs that are over and that others are about to follow, where
// there are too many to go into the write of those: what is over stays as it is.
func (s *jobs) tellRuns(ctx context.Context, specs []*ohmv1.JobSpec, now time.Time) error {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	untold := func(spec *ohmv1.JobSpec) bool {
		row := snapshot.Job(cellstate.JobNameOf(spec))
		return row != nil && row.Record.GetDone() != nil && !isTold(row)
	}
	for len(specs) > mostTold && slices.ContainsFunc(specs, untold) {
		snapshot, err = s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
			snapshot = at
			for _, spec := range specs {
				if len(w.Records) == mostTold || !untold(spec) {
					continue
				}
				row := at.Job(cellstate.JobNameOf(spec))
				w.Guards = append(w.Guards, cellstate.Guard{Key: cellstate.JobKey(row.Name), Revision: row.Revision})
				w.Records = append(w.Records, reconcile.Over(at, row, now))
			}
			return w, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
