package reconcile

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// placedAfter is the time from a job's submission until the last of its tasks had its first node;
// nil where one has none, or nobody can tell any more.
func placedAfter(j *cellstate.Job) *durationpb.Duration {
	missing := 0
	for _, g := range j.Record.GetSpec().GetGroups() {
		missing += int(g.GetCount())
	}
	if missing == 0 { // or of a system job, which always has as many as there are nodes
		return nil
	}
	var last time.Time
	for _, t := range j.Tasks {
		g := j.Group(t.Slot.Group)
		if !j.Current(t.Slot) || g == nil || t.Slot.Index >= int(g.GetCount()) {
			continue
		}
		first := firstPlaced(t)
		if first.IsZero() {
			return nil
		}
		if missing--; first.After(last) {
			last = first
		}
	}
	if missing > 0 {
		return nil
	}
	return durationpb.New(max(0, last.Sub(j.Record.GetSubmitTime().AsTime())))
}

// firstPlaced is when a task's first attempt was placed; zero: nobody can tell.
func firstPlaced(t *cellstate.Task) time.Time {
	switch {
	case len(t.Ended) > 0 && t.Ended[0].Attempt == 1:
		return t.Ended[0].GetPlacement().GetTime().AsTime()
	case len(t.Ended) == 0 && t.Placement != nil && t.Placement.GetAttempt() == 1:
		return t.Placement.GetTime().AsTime()
	}
	return time.Time{}
}

// failedMost bounds the tasks that a status names.
const failedMost = 10

// failedEnds are the last ends of the tasks by which a job has failed.
func (d *judged) failedEnds() (ends []*ohmv1.TaskEnd) {
	for _, t := range d.job.Tasks {
		if !d.failedForGood(t) {
			continue
		}
		if len(ends) == failedMost {
			break
		}
		last := newest(t.Ended)
		ends = append(ends, &ohmv1.TaskEnd{
			Task: t.Slot.Task(), Attempt: int32(last.Attempt), Cause: task.CauseText(last.GetStatus()),
			ExitCode: last.GetStatus().GetExitCode(), Signal: last.GetStatus().GetSignal(),
		})
	}
	return ends
}

// failedForGood says whether a slot that runs to its end has failed, and no other attempt follows.
func (d *judged) failedForGood(t *cellstate.Task) bool {
	if !jobspec.RunsToEnd(d.spec) || !d.job.Current(t.Slot) || t.Placement != nil || newest(t.Ended) == nil {
		return false
	}
	p, _ := (Limits{}).untilSuccess(t.Ended, d.spec, d.now)
	return p == failed
}
