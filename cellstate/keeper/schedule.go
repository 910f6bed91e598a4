package keeper

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// launch is the write that launches what is due of a job's schedule, or leaves it out, one run at
// a time; nil: nothing is due. wake is when something will be; zero: never.
//
// It moves the schedule on past what it decides about, so that a time is never launched twice,
// whoever leads. And it compares the job's record, from which it has seen whether a run goes on: so the
// rule about overlaps holds in the store, not only in the eye of a keeper.
func launch(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) (w *cellstate.Write, wake time.Time) {
	if j.Schedule == nil {
		return nil, time.Time{}
	}
	rule := j.Schedule.GetSpec().GetSchedule()
	due, through, leftOut, wake := reconcile.Due(j.Schedule, now)
	if due.IsZero() && leftOut == 0 {
		return nil, wake
	}
	schedule := proto.CloneOf(j.Schedule)
	schedule.Through, schedule.LeftOut = timestamppb.New(through), schedule.GetLeftOut()+leftOut
	w = &cellstate.Write{Records: []cellstate.Record{{Key: cellstate.ScheduleKey(j.Name), Value: schedule, Read: j.ScheduleRevision}}}
	record := cellstate.Guard{Key: cellstate.JobKey(j.Name), Revision: j.Revision}
	waiting := len(j.WaitingRuns())
	goesOn := waiting > 0 || j.Record != nil && j.Record.GetDone() == nil
	number := reconcile.NewestRun(j) + 1
	run := &ohmv1.Job{Spec: schedule.GetSpec(), SubmitTime: timestamppb.New(now), Due: timestamppb.New(due)}
	switch {
	case due.IsZero():
	case !goesOn:
		schedule.Launched++
		next := reconcile.Begin(j, number, run)
		w.Records = append(w.Records, cellstate.JobRecords(j, j.Name, next, nil)...)
		if j.Record != nil {
			w.Records = append(w.Records, reconcile.Over(s, j, now))
		}
		if cellstate.Barred(j.Record.GetSpec(), next.GetSpec()) {
			w.Records = append(w.Records, cellstate.Barrier(s, "rules of job "+j.Name.Name))
		}
	case rule.GetOverlap() == reconcile.OverlapForbid, waiting >= reconcile.MaxWaitingRuns:
		schedule.LeftOut++
		w.Guards = append(w.Guards, record)
	case rule.GetOverlap() == reconcile.OverlapReplace && j.Record != nil:
		// The new run waits, and all before it are stopped: it begins when their last task has ended.
		schedule.Launched++
		stopped := proto.CloneOf(j.Record)
		if stopped.StoppedThrough = number - 1; j.Live() {
			stopped.Stopped, stopped.StopTime = true, timestamppb.New(now)
		}
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.JobKey(j.Name), Value: stopped, Read: j.Revision},
			cellstate.Record{Key: cellstate.RunKey(j.Name, number), Value: &ohmv1.Run{Job: run}})
	default:
		schedule.Launched++
		w.Guards = append(w.Guards, record)
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.RunKey(j.Name, number), Value: &ohmv1.Run{Job: run}})
	}
	return w, wake
}
