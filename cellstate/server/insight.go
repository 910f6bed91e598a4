package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

const (
	explainedConflicts = 10 // the newest ones
	explainedTasks     = 10
	listedConflicts    = 50 // where the request gives no limit
)

// insight is the Insight service: what happened and why, from the store alone.
type insight struct {
	ohmv1.UnimplementedInsightServer
	*Server
}

// Explain says where a job stands and why.
func (s *insight) Explain(ctx context.Context, req *ohmv1.GetJobRequest) (*ohmv1.ExplainResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	row, err := find(snapshot, jobName(req.GetNamespace(), req.GetJob()))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	status := reconcile.Status(snapshot, row, now)
	resp := &ohmv1.ExplainResponse{
		Namespace: row.Name.Namespace, Job: row.Name.Name, State: status.GetState(), Message: cmp.Or(status.GetMessage(), sentence(status)),
		Scheduler: status.GetScheduler(), SchedulerState: schedulerState(snapshot.Scheduler(status.GetScheduler())),
		Conflicts: conflicts(snapshot, &ohmv1.ListConflictsRequest{
			Namespace: row.Name.Namespace, Job: row.Name.Name, Limit: explainedConflicts,
		}),
		Holds: heldFor(snapshot, row.Name),
	}
	if w := row.Waiting; w != nil && w.GetJobVersion() == row.Record.GetVersion() && !isDone(status.GetState()) {
		resp.Groups, resp.SnapshotRevision, resp.Time = w.GetGroups(), w.GetSnapshotRevision(), w.GetTime()
	}
	if !isDone(status.GetState()) {
		if f := snapshot.Fair(); f != nil {
			resp.Fair = f.View(row.Name.Namespace)
		}
		resp.Queue = schedulers.InLine(snapshot, row.Name, now)
		resp.Unblocks = unblocks(snapshot, row, resp.Queue, now)
	}
	held := ""
	for _, t := range reconcile.Tasks(snapshot, row, now, true) {
		switch {
		case held != "" || t.GetMessage() == "":
		case t.GetState() == task.Name(task.Assigned):
			held = fmt.Sprintf("; %s on node %s %s", t.GetTask(), t.GetNode(), t.GetMessage())
		case t.GetState() == task.Name(task.Running):
			held = fmt.Sprintf("; of %s on node %s: %s", t.GetTask(), t.GetNode(), t.GetMessage())
		}
		if t.GetState() == task.Name(task.Failed) || t.GetState() == task.Name(task.Lost) {
			resp.Tasks = append(resp.Tasks, t)
		}
	}
	resp.Message += held
	var running []*cellstate.Task
	for _, t := range row.Tasks {
		if runs(t) && len(running) < explainedTasks {
			running = append(running, t)
		}
	}
	resp.Usage = s.gateway.usage(ctx, running, usageSoon)
	slices.SortStableFunc(resp.Tasks, func(a, b *ohmv1.TaskView) int {
		return b.GetSince().AsTime().Compare(a.GetSince().AsTime())
	})
	resp.Tasks = resp.Tasks[:min(len(resp.Tasks), explainedTasks)]
	return resp, nil
}

// sentence sums a job up that is where its owner wants it.
func sentence(status *ohmv1.JobStatus) string {
	var sum ohmv1.GroupCounts
	for _, g := range status.GetGroups() {
		sum.Waiting += g.GetWaiting()
		sum.Starting += g.GetStarting()
		sum.Running += g.GetRunning()
		sum.Stopping += g.GetStopping()
		sum.Succeeded += g.GetSucceeded()
		sum.Failed += g.GetFailed()
		sum.Stopped += g.GetStopped()
	}
	var parts []string
	for _, part := range []struct {
		n    int32
		what string
	}{
		{sum.Waiting, "waiting"}, {sum.Starting, "starting"}, {sum.Running, "running"}, {sum.Stopping, "stopping"},
		{sum.Succeeded, "succeeded"}, {sum.Failed, "failed"}, {sum.Stopped, "stopped"},
	} {
		if part.n > 0 {
			noun := "tasks "
			if len(parts) > 0 {
				noun = ""
			} else if part.n == 1 {
				noun = "task "
			}
			parts = append(parts, fmt.Sprintf("%d %s%s", part.n, noun, part.what))
		}
	}
	if len(parts) == 0 {
		return "no task is wanted now"
	}
	return strings.Join(parts, ", ")
}

func (s *insight) ListConflicts(ctx context.Context, req *ohmv1.ListConflictsRequest) (*ohmv1.ListConflictsResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetLimit() < 0 {
		return nil, refuse(errInvalid, "limit %d is negative", req.GetLimit())
	}
	return &ohmv1.ListConflictsResponse{Conflicts: conflicts(snapshot, req)}, nil
}

// conflicts are the journal's entries that a request asks for, newest first.
func conflicts(s *cellstate.Snapshot, req *ohmv1.ListConflictsRequest) []*ohmv1.ConflictView {
	var found []*ohmv1.Conflict
	for c := range s.Conflicts(req.GetScheduler()) {
		wanted := (req.GetNamespace() == "" || c.GetSlot().GetNamespace() == req.GetNamespace()) &&
			(req.GetJob() == "" || c.GetSlot().GetJob() == req.GetJob()) &&
			(req.GetNode() == "" || c.GetNode() == req.GetNode())
		if wanted {
			found = append(found, c)
		}
	}
	slices.SortStableFunc(found, func(a, b *ohmv1.Conflict) int {
		return cmp.Or(b.GetTime().AsTime().Compare(a.GetTime().AsTime()), cmp.Compare(b.GetId(), a.GetId()))
	})
	limit := cmp.Or(int(req.GetLimit()), listedConflicts)
	var views []*ohmv1.ConflictView
	for _, c := range found[:min(len(found), limit)] {
		views = append(views, conflictView(c))
	}
	return views
}

func conflictView(c *ohmv1.Conflict) *ohmv1.ConflictView {
	slot := cellstate.SlotOf(c.GetSlot())
	v := &ohmv1.ConflictView{
		Time: c.GetTime(), Scheduler: c.GetScheduler(), Transaction: c.GetTxn(),
		Namespace: slot.Namespace, Job: slot.Job, Task: slot.Task(), Node: c.GetNode(),
		Reason: c.GetReason(), Dimension: c.GetDimension(), Wanted: c.GetWanted(), Free: c.GetFree(),
		SnapshotRevision: c.GetSnapshotRevision(), StoreRevision: c.GetStoreRevision(),
	}
	if c.GetWinner() != nil {
		v.Winner = winnerView(c.GetWinner())
	}
	for _, p := range c.GetBetween() {
		v.Between = append(v.Between, winnerView(p))
	}
	return v
}

func winnerView(p *ohmv1.Party) *ohmv1.WinnerView {
	slot := cellstate.SlotOf(p.GetSlot())
	return &ohmv1.WinnerView{
		Scheduler: p.GetScheduler(), Transaction: p.GetTxn(), Namespace: slot.Namespace, Task: slot.Task(), Revision: p.GetRevision(),
	}
}
