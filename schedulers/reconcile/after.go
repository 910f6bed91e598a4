package reconcile

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A job that is to follow others names them, and its run the runs that those names meant when it
// was submitted: so no later run of theirs counts, and runs that wait for each other in a
// circle cannot come about but within one submission, which is refused. Whether they have ended is
// found out by the keeper alone, which writes it into the job's record: the record is what a
// claim compares, so that no scheduler starts anything before, and what wakes whoever waits.

// The ways in which a run may have to end for another to begin.
const (
	OnOK   = "ok"
	OnFail = "fail"
	OnAny  = "any"
)

// fate is how a run has ended; empty while it has not. Not known: nothing is kept of it.
func fate(s *cellstate.Snapshot, namespace string, d *ohmv1.Dependency) (state string, known bool) {
	j := s.Job(cellstate.JobName{Namespace: namespace, Name: d.GetJob()})
	if j == nil {
		return "", false
	}
	if RunOf(j) == d.GetRun() {
		return j.Record.GetDone().GetState(), true
	}
	r := j.Run(d.GetRun())
	return r.GetJob().GetDone().GetState(), r != nil
}

// met says whether a run that had to end so has; never: it cannot any more, and why.
func met(s *cellstate.Snapshot, namespace string, d *ohmv1.Dependency) (met bool, never string) {
	state, known := fate(s, namespace, d)
	wanted := map[string]string{OnOK: Succeeded, OnFail: Failed}[d.GetOn()]
	switch {
	case known && state == "":
		return false, ""
	case state == wanted, d.GetOn() == OnAny:
		return true, ""
	case !known:
		return false, fmt.Sprintf("%s, and nothing is kept of that run any more", text(d))
	}
	return false, fmt.Sprintf("%s, which has ended as %s", text(d), state)
}

func text(d *ohmv1.Dependency) string {
	return fmt.Sprintf("it was to follow %s of job %s (run %d)", map[string]string{OnOK: "the success", OnFail: "the failure", OnAny: "the end"}[d.GetOn()], d.GetJob(), d.GetRun())
}

// Gate is the record of a job whose time to begin has come, or will never come, or whose run is
// over its deadline; nil where there is nothing to write. wake is when there will be although
// nothing changes; zero: never.
func Gate(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) (next *ohmv1.Job, wake time.Time) {
	if !j.Live() {
		return nil, time.Time{}
	}
	if limit := j.Record.GetSpec().GetDeadline(); limit != nil && !j.Record.GetTimedOut() {
		if wake = j.Record.GetSubmitTime().AsTime().Add(limit.AsDuration()); !wake.After(now) {
			next = proto.CloneOf(j.Record)
			next.TimedOut = true
			return next, time.Time{}
		}
	}
	if !j.Waits() {
		return nil, wake
	}
	for _, d := range j.Record.GetAfter() {
		ok, never := met(s, j.Name.Namespace, d)
		if never != "" {
			next = proto.CloneOf(j.Record)
			next.Done = &ohmv1.Outcome{State: Skipped, Groups: Defaults().judge(s, j, now).counts(Skipped), Time: timestamppb.New(now), Cause: never}
			return next, time.Time{}
		}
		if !ok {
			return nil, wake
		}
	}
	next = proto.CloneOf(j.Record)
	next.Released = true
	return next, time.Time{}
}

// waitsFor names the jobs that a job waits for.
func waitsFor(s *cellstate.Snapshot, j *cellstate.Job) string {
	var names []string
	for _, d := range j.Record.GetAfter() {
		if ok, never := met(s, j.Name.Namespace, d); !ok && never == "" {
			names = append(names, d.GetJob())
		}
	}
	switch n := len(names); {
	case n == 0:
		return "what it waited for has ended"
	case n > 3:
		return fmt.Sprintf("waiting for %s and %d others", strings.Join(names[:3], ", "), n-3)
	}
	return "waiting for " + strings.Join(names, ", ")
}
