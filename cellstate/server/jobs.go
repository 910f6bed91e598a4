package server

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// jobs is the Jobs service. Names are matched exactly, always: a request about web
// never touches web1.
type jobs struct {
	ohmv1.UnimplementedJobsServer
	*Server
}

// jobName is the name that a request means.
func jobName(namespace, job string) cellstate.JobName {
	return cellstate.JobName{Namespace: cmp.Or(namespace, "default"), Name: job}
}

// find is the job's row, which has a record.
func find(s *cellstate.Snapshot, name cellstate.JobName) (*cellstate.Job, error) {
	row := s.Job(name)
	if row == nil || row.Record == nil {
		return nil, refuse(cellstate.ErrNotFound, "job %s not found", name)
	}
	return row, nil
}

// in yields the rows of a namespace's jobs, of all namespaces if it is empty.
func in(s *cellstate.Snapshot, namespace string) iter.Seq[*cellstate.Job] {
	if namespace == "" {
		return s.Jobs()
	}
	return s.JobsIn(namespace)
}

func (s *jobs) Get(ctx context.Context, req *ohmv1.GetJobRequest) (*ohmv1.GetJobResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	row, status, err := findRun(snapshot, jobName(req.GetNamespace(), req.GetJob()), req.GetRun(), time.Now())
	if err != nil {
		return nil, err
	}
	record := row.Record
	if record == nil {
		record = &ohmv1.Job{Spec: row.Schedule.GetSpec(), RequestId: row.Schedule.GetRequestId()}
	}
	resp := &ohmv1.GetJobResponse{Job: record, Revision: int64(row.Revision), Status: status}
	if r := row.Run(req.GetRun()); r != nil && req.GetRun() != reconcile.RunOf(row) {
		resp.Job, resp.Revision = r.GetJob(), int64(r.Revision)
	}
	return resp, nil
}

func (s *jobs) List(ctx context.Context, req *ohmv1.ListJobsRequest) (*ohmv1.ListJobsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	resp, now := &ohmv1.ListJobsResponse{}, time.Now()
	for row := range in(snapshot, req.GetNamespace()) {
		if status, ok := reconcile.RunStatus(snapshot, row, 0, now); ok {
			resp.Jobs = append(resp.Jobs, status)
		}
	}
	return resp, nil
}

func (s *jobs) ListTasks(ctx context.Context, req *ohmv1.ListTasksRequest) (*ohmv1.ListTasksResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	rows := in(snapshot, req.GetNamespace())
	if req.GetJob() != "" {
		row, err := find(snapshot, jobName(req.GetNamespace(), req.GetJob()))
		if err != nil {
			return nil, err
		}
		rows = func(yield func(*cellstate.Job) bool) { yield(row) }
	}
	if req.GetNode() != "" && snapshot.Node(cellstate.NodeName(req.GetNode())) == nil {
		return nil, refuse(cellstate.ErrNotFound, "node %s not found", req.GetNode())
	}
	resp, now := &ohmv1.ListTasksResponse{}, time.Now()
	for row := range rows {
		for _, t := range reconcile.Tasks(snapshot, row, now, req.GetAttempts()) {
			if req.GetNode() == "" || t.GetNode() == req.GetNode() {
				resp.Tasks = append(resp.Tasks, t)
			}
		}
	}
	return resp, nil
}

// Stop marks jobs as stopped; their tasks end after that. Where one of the names is
// unknown, nothing is stopped.
func (s *jobs) Stop(ctx context.Context, req *ohmv1.StopJobsRequest) (*ohmv1.StopJobsResponse, error) {
	switch {
	case req.GetAll() && len(req.GetJobs()) > 0:
		return nil, refuse(errInvalid, "the request names jobs and all of them, too; give one of the two")
	case req.GetAll():
		return s.stopAll(ctx, req.GetNamespace())
	case len(req.GetJobs()) == 0:
		return nil, refuse(errInvalid, "the request names no job")
	case len(req.GetJobs()) > maxJobs:
		return nil, refuse(errInvalid, "the request names %d jobs, more than the %d that are stopped as one; send it in parts", len(req.GetJobs()), maxJobs)
	}
	names := map[cellstate.JobName]bool{}
	for _, job := range req.GetJobs() {
		names[jobName(req.GetNamespace(), job)] = true
	}
	now := time.Now()
	snapshot, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		for name := range names {
			row, _, err := findRun(at, name, 0, now)
			if err != nil {
				return w, err
			}
			addStop(&w, row, now)
		}
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	return stopped(snapshot, names), nil
}

// stopAll stops every live job of a namespace, or of all; as many at a time as one
// write may hold, until a snapshot shows none.
func (s *jobs) stopAll(ctx context.Context, namespace string) (*ohmv1.StopJobsResponse, error) {
	names, now := map[cellstate.JobName]bool{}, time.Now()
	for {
		marked := 0
		snapshot, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
			for row := range in(at, namespace) {
				if len(w.Records) >= maxJobs {
					break
				}
				if row.Live() || row.Schedule != nil {
					names[row.Name] = true
					addStop(&w, row, now)
				}
			}
			marked = len(w.Records)
			return w, nil
		})
		if err != nil {
			return nil, err
		}
		if marked < maxJobs {
			return stopped(snapshot, names), nil
		}
	}
}

// addStop adds the mark to a live job, and to one of which runs wait, which end unbegun; of another
// one, that it is still as it was read. A schedule goes.
func addStop(w *cellstate.Write, row *cellstate.Job, now time.Time) {
	if row.Schedule != nil {
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.ScheduleKey(row.Name), Read: row.ScheduleRevision})
		if row.Record == nil {
			return
		}
	}
	newest := reconcile.NewestRun(row)
	if !row.Live() && (len(row.WaitingRuns()) == 0 || row.Record.GetStoppedThrough() >= newest) {
		w.Guards = append(w.Guards, cellstate.Guard{Key: cellstate.JobKey(row.Name), Revision: row.Revision})
		return
	}
	record := proto.CloneOf(row.Record)
	if record.StoppedThrough = newest; row.Live() {
		record.Stopped, record.StopTime = true, timestamppb.New(now)
	}
	w.Records = append(w.Records, cellstate.Record{Key: cellstate.JobKey(row.Name), Value: record, Read: row.Revision})
}

// stopped is what has become of the jobs, by name.
func stopped(s *cellstate.Snapshot, names map[cellstate.JobName]bool) *ohmv1.StopJobsResponse {
	resp, now := &ohmv1.StopJobsResponse{}, time.Now()
	for name := range names {
		if row := s.Job(name); row != nil && row.Record != nil {
			resp.Jobs = append(resp.Jobs, reconcile.Status(s, row, now))
		} else { // all that there was of it was a schedule
			resp.Jobs = append(resp.Jobs, &ohmv1.JobStatus{Namespace: name.Namespace, Job: name.Name, State: reconcile.Stopped, Revision: int64(s.Revision())})
		}
	}
	slices.SortFunc(resp.Jobs, func(a, b *ohmv1.JobStatus) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetJob(), b.GetJob()))
	})
	return resp
}
