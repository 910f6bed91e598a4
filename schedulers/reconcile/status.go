package reconcile

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Status is a job as people see it, with the default limits.
func Status(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) *ohmv1.JobStatus {
	return Defaults().Status(s, j, now)
}

// Status is a job as people see it. Its message says why the job waits or how it
// failed; every waiting job has somebody who is named as owing it an answer.
func (l Limits) Status(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) *ohmv1.JobStatus {
	d := l.judge(s, j, now)
	decision := d.decision()
	record := j.Record
	out := &ohmv1.JobStatus{
		Namespace: j.Name.Namespace, Job: j.Name.Name, Kind: d.spec.GetKind(),
		State: decision.State, Groups: decision.Counts,
		Scheduler: d.spec.GetScheduler(), Precedence: d.spec.GetPrecedence(), Version: record.GetVersion(),
		Submitted: record.GetSubmitTime(), Revision: int64(s.Revision()), RequestId: record.GetRequestId(),
		Run: RunOf(j), RunsWaiting: int32(len(j.WaitingRuns())), Next: NextDue(j, now),
	}
	until := now
	if done := record.GetDone(); done.GetTime() != nil {
		out.Ended, until = done.GetTime(), done.GetTime().AsTime()
	} else if decision.Done != nil {
		out.Ended = lastEnd(j)
		if out.Ended != nil {
			until = out.Ended.AsTime()
		}
	}
	if record.GetSubmitTime() != nil {
		out.Elapsed = durationpb.New(max(0, until.Sub(record.GetSubmitTime().AsTime())))
	}
	if out.Message = l.message(d, decision); out.Message == "" && out.Next != nil {
		out.Message = nextText(out.Next)
	}
	out.PlacedAfter = placedAfter(j)
	if decision.State == Failed {
		out.Failed = d.failedEnds()
	}
	if r := j.Rollout; j.Live() && r != nil {
		out.Rollout, out.RolloutMessage = r.GetState(), r.GetMessage()
		switch {
		case r.GetReverts() && out.Rollout == RolloutRunning:
			out.Rollout = "Reverting"
		case r.GetReverts() && out.Rollout == RolloutDone:
			out.Rollout = "Reverted"
		}
	}
	return out
}

// lastEnd is when the newest attempt of the job ended; nil if there was none.
func lastEnd(j *cellstate.Job) *timestamppb.Timestamp {
	var last time.Time
	for _, t := range j.Tasks {
		if e := newest(t.Ended); e != nil && endOf(e).After(last) {
			last = endOf(e)
		}
	}
	if last.IsZero() {
		return nil
	}
	return timestamppb.New(last)
}

// message is one sentence on why the job is not where its owner wants it.
func (l Limits) message(d *judged, decision Decision) string {
	switch {
	case d.job.Record == nil:
		return ""
	case !known(d.spec):
		return fmt.Sprintf("this release does not know jobs of kind %q: it places none of their tasks, and leaves those that run", d.spec.GetKind())
	case decision.State == Skipped:
		return d.job.Record.GetDone().GetCause()
	case decision.State == Failed, decision.State == Stopping && d.over() == Failed:
		return d.whyFailed()
	case decision.State == Stopping:
		text := fmt.Sprintf("%s still to stop", tasksText(d.live))
		if silent := d.onSilentNodes(); silent != "" {
			text += "; " + silent
		}
		return text
	case d.job.Live() && d.job.Waits():
		return waitsFor(d.snapshot, d.job)
	case rolling(d.job) && d.job.Rollout.GetMessage() != "": // it has failed, or goes back for that
		return d.rollout()
	case len(decision.Needs) > 0:
		return l.whyWaiting(d)
	}
	for _, s := range d.slots {
		if !jobspec.RunsToEnd(d.spec) && l.crashes(s, d.now) {
			text := fmt.Sprintf("%s/%d is in a crash loop: it ended %d times in a row soon after its start, at last so: %s", s.Group, s.Index,
				l.inRow(s.task.Ended), task.CauseText(newest(s.task.Ended).GetStatus()))
			if s.phase == backoff {
				text += fmt.Sprintf("; attempt %d follows in %s", s.task.Attempts()+1, seconds(s.until.Sub(d.now)))
			}
			return text
		}
	}
	for _, s := range d.slots {
		if s.phase == backoff {
			last := newest(s.task.Ended)
			return fmt.Sprintf("%s/%d ended (%s), attempt %d follows in %s", s.Group, s.Index,
				task.CauseText(last.GetStatus()), s.task.Attempts()+1, seconds(s.until.Sub(d.now)))
		}
	}
	for _, s := range d.slots {
		if s.phase == blocked {
			text := fmt.Sprintf("%s/%d waits until the task of the older version has ended", s.Group, s.Index)
			if silent := d.onSilentNodes(); silent != "" {
				text += "; " + silent
			}
			return text
		}
	}
	if decision.State == Succeeded {
		return d.excused(decision.Counts)
	}
	if d.over() == "" {
		return cmp.Or(d.rollout(), d.crowded(), d.onSilentNodes())
	}
	return ""
}

// crowded says that slots wait for others of the job to end; empty: none does.
func (d *judged) crowded() string {
	most := d.job.MaxParallel()
	if waiting := d.count(ready); most > 0 && d.live >= most && waiting > 0 {
		return fmt.Sprintf("%s to follow: maxParallel is %d", tasksText(waiting), most)
	}
	return ""
}

// excused says that a job has succeeded in spite of failures, as it allows them.
func (d *judged) excused(counts []*ohmv1.GroupCounts) string {
	failed, all := 0, 0
	for _, c := range counts {
		failed, all = failed+int(c.GetFailed()), all+int(c.GetCount())
	}
	if failed == 0 || d.spec.GetAllowedFailures() == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s failed, which allowedFailures allows", failed, tasksText(all))
}

// rollout says how far the tasks have come to the job's version; empty once they have.
func (d *judged) rollout() string {
	r := d.job.Rollout
	if !rolling(d.job) {
		return ""
	}
	come, all := 0, 0
	for _, s := range d.slots {
		all++
		if s.phase == live {
			come++
		}
	}
	text := fmt.Sprintf("%d of %d tasks are of version %d", come, all, d.job.Record.GetVersion())
	canary := int(d.spec.GetUpdate().GetCanary())
	switch {
	case r.GetState() == RolloutFailed:
		return "the update has failed: " + r.GetMessage() + "; " + text
	case r.GetState() == RolloutPaused:
		return text + "; the update is paused"
	case r.GetReverts() && r.GetMessage() != "":
		return text + ", to which the job goes back: " + r.GetMessage()
	case canary > 0 && !r.GetPromoted() && !r.GetReverts() && come >= min(canary, all):
		return text + "; the others follow when somebody promotes it"
	}
	return text
}

// whyWaiting says who owes an answer to a job of which slots need a node, or the answer.
func (l Limits) whyWaiting(d *judged) string {
	name := d.spec.GetScheduler()
	row := d.snapshot.Scheduler(name)
	word := d.job.Waiting
	waited := d.now.Sub(d.waitingSince())
	switch {
	case row == nil:
		return fmt.Sprintf("scheduler %s is not registered", name)
	case len(row.Instances) == 0:
		return fmt.Sprintf("scheduler %s has not been seen for %s", name, seconds(d.now.Sub(LastSeen(d.snapshot, name))))
	case word != nil && word.GetJobVersion() == d.job.Record.GetVersion():
		return word.GetMessage()
	case d.ofGang != nil && d.ofGang.Stage == Growing:
		return d.ofGang.Note
	case waited >= l.Unanswered:
		return fmt.Sprintf("scheduler %s has not answered for %s", name, seconds(waited))
	}
	return fmt.Sprintf("waiting for scheduler %s", name)
}

// waitingSince is when the slots that need a node began to wait: the end of the newest
// attempt of any of them, or the job's submission.
func (d *judged) waitingSince() time.Time {
	since := d.job.Record.GetSubmitTime().AsTime()
	for _, s := range d.slots {
		if s.phase != ready {
			continue
		}
		if e := newest(ended(s.task)); e != nil && endOf(e).After(since) {
			since = endOf(e)
		}
	}
	return since
}

// SeenMeta is the name of the meta record in which a scheduler's instances note now
// and then that they are there, so that it can be told since when none is.
func SeenMeta(scheduler string) string { return "scheduler/" + scheduler }

// LastSeen is the last time at which the store shows a scheduler at work: no later than
// its last instance went, and earlier by at most the interval of its notes.
func LastSeen(s *cellstate.Snapshot, scheduler string) time.Time {
	var last time.Time
	later := func(t *timestamppb.Timestamp) {
		if t != nil && t.AsTime().After(last) {
			last = t.AsTime()
		}
	}
	if row := s.Scheduler(scheduler); row != nil {
		later(row.Record.GetCreated())
	}
	seen, _ := s.Meta(SeenMeta(scheduler))
	later(seen.GetTime())
	return last
}

// whyFailed names the first slot that failed for good.
func (d *judged) whyFailed() string {
	if d.job.Record.GetTimedOut() {
		return fmt.Sprintf("the run was not over within its deadline of %s", d.spec.GetDeadline().AsDuration())
	}
	if d.timedOut {
		return fmt.Sprintf("the gang found no room within %s", d.spec.GetGang().GetTimeout().AsDuration())
	}
	for _, t := range d.job.Tasks {
		if !d.failedForGood(t) {
			continue
		}
		e := newest(t.Ended)
		text := fmt.Sprintf("%s/%d failed (%s) in attempt %d", t.Slot.Group, t.Slot.Index, task.CauseText(e.GetStatus()), e.Attempt)
		if said := e.GetStatus().GetMessage(); said != "" {
			text += ": " + said
		}
		return text
	}
	return ""
}

func tasksText(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// seconds is a time for people: whole seconds, at least one.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%d s", max(1, int64((d+time.Second/2)/time.Second)))
}
