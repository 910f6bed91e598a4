package reconcile

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/cron"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Scheduled is the state of a job of which no run is known and whose schedule will begin one.
const Scheduled = "Scheduled"

// What a schedule does when it is due while a run goes on.
const (
	OverlapForbid  = "forbid"  // the time is left out
	OverlapReplace = "replace" // the run that goes on is stopped, and the new one follows
	OverlapQueue   = "queue"   // the new one waits for its turn
)

// MaxWaitingRuns bounds the runs of one job that wait for their turn.
const MaxWaitingRuns = 100

// mostDue bounds the times that are counted after a long pause.
const mostDue = 100_000

// Due is the first time of a schedule that is to be launched by now, zero if none is; the time
// through which everything is decided with it, and how many times before it are left out. wake is
// when the schedule is due next.
//
// Of times that were missed, as nobody led, catchUp none launches the newest if it is not later than
// startWithin, one launches the newest however late, and all launches them all, in order, from
// the limit newest on.
func Due(r *ohmv1.Schedule, now time.Time) (due, through time.Time, leftOut int64, wake time.Time) {
	rule := r.GetSpec().GetSchedule()
	s, err := cron.Parse(rule.GetCron(), rule.GetTimeZone())
	if err != nil { // of a later release: held
		return
	}
	var all []time.Time
	for wake = s.Next(r.GetThrough().AsTime()); !wake.IsZero() && !wake.After(now); wake = s.Next(wake) {
		if all = append(all, wake); len(all) == mostDue {
			break
		}
	}
	if len(all) == 0 {
		return due, through, 0, wake
	}
	first := len(all) - 1
	switch rule.GetCatchUp() {
	case "all":
		first = max(0, len(all)-int(rule.GetLimit()))
	case "one":
	default:
		if now.Sub(all[first]) > rule.GetStartWithin().AsDuration() {
			return due, all[first], int64(len(all)), wake
		}
	}
	return all[first], all[first], int64(first), wake
}

// NextDue is when a job's schedule is due next; nil: it has none.
func NextDue(j *cellstate.Job, now time.Time) *timestamppb.Timestamp {
	rule := j.Schedule.GetSpec().GetSchedule()
	if rule == nil {
		return nil
	}
	s, err := cron.Parse(rule.GetCron(), rule.GetTimeZone())
	if err != nil {
		return nil
	}
	return timestamppb.New(s.Next(now))
}

// scheduled is the status of a job of which no run is known.
func scheduled(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) *ohmv1.JobStatus {
	spec := j.Schedule.GetSpec()
	out := &ohmv1.JobStatus{
		Namespace: j.Name.Namespace, Job: j.Name.Name, Kind: spec.GetKind(), State: Scheduled, Scheduler: spec.GetScheduler(),
		Precedence: spec.GetPrecedence(), Submitted: j.Schedule.GetTime(), Revision: int64(s.Revision()), RequestId: j.Schedule.GetRequestId(),
		Elapsed: since(j.Schedule.GetTime(), now), Next: NextDue(j, now),
	}
	for _, g := range spec.GetGroups() {
		out.Groups = append(out.Groups, &ohmv1.GroupCounts{Name: g.GetName(), Count: g.GetCount()})
	}
	out.Message = nextText(out.Next)
	return out
}

func nextText(at *timestamppb.Timestamp) string {
	return fmt.Sprintf("the next run is due at %s", at.AsTime().Format(time.RFC3339))
}
