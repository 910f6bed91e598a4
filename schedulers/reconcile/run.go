package reconcile

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A run is one life of a job: from a submission to the end of what it began. The job's record
// is of one run at a time, and all that is stored of tasks belongs to the record, so that
// nothing below a job knows of runs. The others stand in records of their own, runs/…/<n>:
//
//	waits   asked for while another went on; it has no version and nothing of it is placed.
//	        The keeper puts the first of them in the record's place in the write that
//	        finds the run before at its end, or in a later one.
//	over    written by whatever takes the job's record away: the next run, or the keeper when
//	        the record has stood there long enough. It keeps the cause, and the
//	        attempts that tell most.
//
// So a job that is run once costs no write more than before. Numbers and versions of a name go
// on for as long as one of its runs is known.

// Of each slot so many of the first and of the newest attempts are kept, and of a run so many in
// all once its record has gone: those of slots that did not succeed before others.
const (
	FirstAttempts  = 5
	NewestAttempts = 20
	runAttempts    = 200
)

// RunOf is the number of the run that a job's record is of; 0 where there is no record.
func RunOf(j *cellstate.Job) int64 {
	if j.Record == nil {
		return 0
	}
	return max(1, j.Record.GetRun()) // 0: of a release that did not count
}

// NewestRun is the highest number that a run of the job has; 0: it has none.
func NewestRun(j *cellstate.Job) int64 {
	n := RunOf(j)
	if len(j.Runs) > 0 {
		n = max(n, j.Runs[len(j.Runs)-1].Number)
	}
	return n
}

// FreeVersion is the version that a new run of the job has: none of its tasks was of it.
func FreeVersion(j *cellstate.Job) int64 {
	version := j.Record.GetVersion()
	for _, t := range j.Tasks {
		version = max(version, t.Slot.Version)
	}
	for _, r := range j.Runs {
		version = max(version, r.GetJob().GetVersion())
	}
	return version + 1
}

// Begin makes of a run that is asked for the record with which it begins.
func Begin(j *cellstate.Job, number int64, run *ohmv1.Job) *ohmv1.Job {
	next := proto.CloneOf(run)
	next.Run, next.Version = number, FreeVersion(j)
	next.RunVersion = next.Version
	return next
}

// Over is the record of the run that the job's record is of, for when that goes.
func Over(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) cellstate.Record {
	return cellstate.Record{Key: cellstate.RunKey(j.Name, RunOf(j)), Value: over(s, j, now), Read: revisionOf(j.Run(RunOf(j)))}
}

func revisionOf(r *cellstate.Run) cellstate.Revision {
	if r == nil {
		return 0
	}
	return r.Revision
}

func over(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) *ohmv1.Run {
	record := proto.CloneOf(j.Record)
	record.MoreRequestIds = nil
	open := *j // as it was before it was marked
	open.Record = proto.CloneOf(record)
	open.Record.Done = nil
	if t := record.GetDone().GetTime(); t != nil {
		now = t.AsTime()
	}
	l := Defaults()
	d := l.judge(s, &open, now)
	if record.Done == nil { // it is cut short
		record.Done = &ohmv1.Outcome{State: Stopped, Groups: d.counts(Stopped), Time: timestamppb.New(now)}
	}
	run := &ohmv1.Run{Job: record, Succeeded: d.succeeded()}
	switch run.Cause = record.GetDone().GetCause(); record.GetDone().GetState() {
	case Failed:
		run.Cause = d.whyFailed()
	case Succeeded:
		run.Cause = d.excused(record.GetDone().GetGroups())
	}
	run.Attempts, run.LeftOut = attemptsOf(j, runAttempts)
	return run
}

// SlotsDone are the slots of the job's run that have succeeded, in this run or in the one that it
// does once more.
func SlotsDone(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) []*ohmv1.Indexes {
	return over(s, j, now).GetSucceeded()
}

func (d *judged) succeeded() []*ohmv1.Indexes {
	var all []*ohmv1.Indexes
	for _, at := range d.slots {
		if at.phase != succeeded {
			continue
		}
		if n := len(all); n == 0 || all[n-1].Group != at.Group {
			all = append(all, &ohmv1.Indexes{Group: at.Group})
		}
		of, i := all[len(all)-1], int32(at.Index)
		if n := len(of.Ranges); n > 0 && of.Ranges[n-1] == i-1 {
			of.Ranges[n-1] = i
		} else {
			of.Ranges = append(of.Ranges, i, i)
		}
	}
	return all
}

// need says of a group's slots, asked for one after the other, whether they must run, or have
// succeeded in the run that this one does once more.
func need(record *ohmv1.Job, group string) func(index int) bool {
	i := slices.IndexFunc(record.GetSucceeded(), func(x *ohmv1.Indexes) bool { return x.GetGroup() == group })
	if i < 0 {
		return func(int) bool { return true }
	}
	ranges := record.GetSucceeded()[i].GetRanges()
	return func(index int) bool {
		for len(ranges) > 1 && int(ranges[1]) < index {
			ranges = ranges[2:]
		}
		return len(ranges) < 2 || index < int(ranges[0])
	}
}

// attemptsOf are attempts of the job's run, at most so many, and how many others there were.
func attemptsOf(j *cellstate.Job, most int) (kept []*ohmv1.Attempt, leftOut int32) {
	seen := 0
	for _, good := range []bool{false, true} {
		for _, t := range j.Tasks {
			if last := newest(t.Ended); t.Slot.Version < j.Record.GetRunVersion() || good != (t.Placement == nil && last != nil && Classify(last.GetStatus()) == Success) {
				continue
			}
			all := attemptsOfTask(t)
			seen += t.Attempts()
			if n := len(all); n > FirstAttempts+NewestAttempts {
				all = append(all[:FirstAttempts:FirstAttempts], all[n-NewestAttempts:]...)
			}
			kept = append(kept, all[:min(len(all), most-len(kept))]...)
		}
	}
	slices.SortStableFunc(kept, func(a, b *ohmv1.Attempt) int { // of one slot they are in order
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(len(a.Task), len(b.Task)), cmp.Compare(a.Task, b.Task))
	})
	return kept, int32(seen - len(kept))
}

func attemptsOfTask(t *cellstate.Task) []*ohmv1.Attempt {
	var all []*ohmv1.Attempt
	add := func(attempt int, p placement, placed *timestamppb.Timestamp, s *ohmv1.Status) {
		all = append(all, &ohmv1.Attempt{
			Task: t.Slot.Task(), Version: t.Slot.Version, Attempt: int32(attempt), Node: p.GetNode(),
			State: task.Name(max(s.GetState(), task.Assigned)), Cause: task.CauseText(s), ExitCode: s.GetExitCode(), Signal: s.GetSignal(), Message: s.GetMessage(),
			Placed: placed, Started: s.GetStarted(), Ended: s.GetEnded(),
		})
	}
	for _, e := range t.Ended {
		add(e.Attempt, e.GetPlacement(), e.GetPlacement().GetTime(), e.GetStatus())
	}
	if p := t.Placement; p != nil {
		add(int(p.GetAttempt()), p, p.GetTime(), t.Status)
	}
	return all
}

// RunStatus is one run of a job as people see it: 0 is the one that its record is of. Not ok: it
// is not known.
func RunStatus(s *cellstate.Snapshot, j *cellstate.Job, number int64, now time.Time) (status *ohmv1.JobStatus, ok bool) {
	if j.Record != nil && (number == 0 || number == RunOf(j)) {
		return Status(s, j, now), true
	}
	if j.Record == nil && number == 0 && j.Schedule != nil {
		return scheduled(s, j, now), true
	}
	r := j.Run(number)
	if r == nil {
		return nil, false
	}
	job, spec := r.GetJob(), r.GetJob().GetSpec()
	status = &ohmv1.JobStatus{
		Namespace: j.Name.Namespace, Job: j.Name.Name, Kind: spec.GetKind(), Scheduler: spec.GetScheduler(), Precedence: spec.GetPrecedence(),
		State: Pending, Version: job.GetVersion(), Run: number, Submitted: job.GetSubmitTime(), Revision: int64(s.Revision()), RequestId: job.GetRequestId(),
		Message: "the run waits until the one before it has ended", Elapsed: since(job.GetSubmitTime(), now),
	}
	if done := job.GetDone(); done != nil {
		status.State, status.Groups, status.Ended, status.Message = done.GetState(), done.GetGroups(), done.GetTime(), r.GetCause()
		status.Elapsed = since(job.GetSubmitTime(), done.GetTime().AsTime())
	} else {
		for _, g := range spec.GetGroups() {
			status.Groups = append(status.Groups, &ohmv1.GroupCounts{Name: g.GetName(), Count: g.GetCount(), Waiting: g.GetCount()})
		}
	}
	return status, true
}

func since(t *timestamppb.Timestamp, now time.Time) *durationpb.Duration {
	if t == nil {
		return nil
	}
	return durationpb.New(max(0, now.Sub(t.AsTime())))
}

// History is what is known of a job's runs, the newest first, or of one, with its attempts.
func History(s *cellstate.Snapshot, j *cellstate.Job, number int64, now time.Time) []*ohmv1.RunView {
	var all []*ohmv1.RunView
	view := func(n int64, record *ohmv1.Job, attempts []*ohmv1.Attempt, leftOut int32) {
		status, _ := RunStatus(s, j, n, now)
		v := &ohmv1.RunView{
			Namespace: status.Namespace, Job: status.Job, Run: n, State: status.State, Groups: status.Groups, Version: status.Version,
			Submitted: status.Submitted, Ended: status.Ended, Elapsed: status.Elapsed, Message: status.Message,
			RequestId: status.RequestId, Again: record.GetAgain(),
		}
		if number > 0 {
			v.Attempts, v.AttemptsLeftOut = attempts, leftOut
		}
		all = append(all, v)
	}
	is := RunOf(j)
	for _, r := range j.Runs {
		if r.Number != is && (number == 0 || number == r.Number) {
			view(r.Number, r.GetJob(), r.GetAttempts(), r.GetLeftOut())
		}
	}
	if is > 0 && (number == 0 || number == is) {
		attempts, leftOut := attemptsOf(j, runAttempts)
		view(is, j.Record, attempts, leftOut)
	}
	slices.SortFunc(all, func(a, b *ohmv1.RunView) int { return cmp.Compare(b.Run, a.Run) })
	return all
}
