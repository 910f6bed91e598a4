package reconcile

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Tasks are the tasks of a job as people see them, with the default limits.
func Tasks(s *cellstate.Snapshot, j *cellstate.Job, now time.Time, attempts bool) []*ohmv1.TaskView {
	return Defaults().Tasks(s, j, now, attempts)
}

// Tasks are the tasks of a job as people see them: for each slot its live attempt, or
// that it waits for its next one (Pending, with the number of attempts that it has
// had), or how its last one ended. Tasks of older versions are there while they live.
// With attempts, every ended attempt that is stored is there too.
func (l Limits) Tasks(s *cellstate.Snapshot, j *cellstate.Job, now time.Time, attempts bool) []*ohmv1.TaskView {
	d := l.judge(s, j, now)
	decision := d.decision()
	waiting := map[cellstate.Slot]bool{}
	if decision.Done == nil && j.Live() && d.over() == "" {
		for _, at := range d.slots {
			if at.phase <= blocked {
				waiting[at.Slot] = true
			}
		}
	}
	message := l.message(d, decision)
	tasks := slices.Clone(j.Tasks)
	for _, at := range d.slots { // of which nothing is stored yet
		if at.task == nil && waiting[at.Slot] {
			tasks = append(tasks, &cellstate.Task{Slot: at.Slot})
		}
	}
	slices.SortFunc(tasks, func(a, b *cellstate.Task) int { return a.Slot.Compare(b.Slot) })
	var out []*ohmv1.TaskView
	for _, t := range tasks {
		from := len(out)
		if attempts {
			for _, e := range t.Ended {
				out = append(out, endedView(e))
			}
		}
		last := newest(t.Ended)
		switch {
		case t.Placement != nil:
			out = append(out, liveView(j, t))
		case waiting[t.Slot]:
			out = append(out, pending(t, j, message))
		case !attempts && last != nil && j.Current(t.Slot):
			out = append(out, endedView(last))
		}
		if j.Current(t.Slot) && jobspec.RunsToEnd(d.spec) {
			n := min(spent(t.Ended, d.spec), int(d.spec.GetRetries()))
			for _, v := range out[from:] {
				v.RetriesSpent, v.Retries = int32(n), d.spec.GetRetries()
			}
		}
	}
	return out
}

func view(slot cellstate.Slot, attempt int) *ohmv1.TaskView {
	return &ohmv1.TaskView{Namespace: slot.Namespace, Task: slot.Task(), Version: slot.Version, Attempt: int32(attempt)}
}

// pending is a slot that waits for its next attempt, with the cause of the last one.
func pending(t *cellstate.Task, j *cellstate.Job, message string) *ohmv1.TaskView {
	v := view(t.Slot, t.Attempts())
	v.State, v.Message = Pending, message
	v.Since = j.Record.GetSubmitTime()
	if last := newest(t.Ended); last != nil {
		v.Since = timestamppb.New(endOf(last))
		v.Cause = task.CauseText(last.GetStatus())
		v.ExitCode, v.Signal = last.GetStatus().GetExitCode(), last.GetStatus().GetSignal()
	}
	return v
}

func liveView(j *cellstate.Job, t *cellstate.Task) *ohmv1.TaskView {
	v := view(t.Slot, int(t.Placement.GetAttempt()))
	fillPlacement(v, t.Placement)
	v.State, v.Since = task.Name(task.Assigned), t.Placement.GetTime()
	if t.Status.GetState() != task.Unknown {
		fillStatus(v, t.Status)
	}
	if t.Status.GetState() == task.Running && checked(j, t) {
		v.Ready = "not ready"
		if t.Status.GetReady() {
			v.Ready = "ready"
		}
	}
	return v
}

func endedView(e *cellstate.Ended) *ohmv1.TaskView {
	v := view(cellstate.SlotOf(e.GetPlacement().GetSlot()), e.Attempt)
	fillPlacement(v, e.GetPlacement())
	fillStatus(v, e.GetStatus())
	return v
}

// placement is a live one's row or an ended one's record.
type placement interface {
	GetNode() string
	GetTxn() string
	GetGpus() []*ohmv1.DeviceShare
	GetPorts() []*ohmv1.Port
}

func fillPlacement(v *ohmv1.TaskView, p placement) {
	v.Node, v.Transaction, v.Gpus, v.Ports = p.GetNode(), p.GetTxn(), p.GetGpus(), p.GetPorts()
}

func fillStatus(v *ohmv1.TaskView, s *ohmv1.Status) {
	v.State, v.Cause = task.Name(s.GetState()), task.CauseText(s)
	v.ExitCode, v.Signal, v.Pid, v.Message = s.GetExitCode(), s.GetSignal(), s.GetPid(), s.GetMessage()
	v.MemoryPeakBytes, v.MemoryLimitBytes = s.GetMemoryPeakBytes(), s.GetMemoryLimitBytes()
	switch {
	case s.GetEnded() != nil:
		v.Since = s.GetEnded()
	case s.GetStarted() != nil:
		v.Since = s.GetStarted()
	}
}
