package server

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// schedule adds to w that runs of a job begin by its schedule from now on, in place of the
// schedule that it has. A run that goes on is left alone.
func schedule(w *cellstate.Write, at *cellstate.Snapshot, spec *ohmv1.JobSpec, requestID string, now time.Time) (*ohmv1.Submitted, error) {
	name := cellstate.JobNameOf(spec)
	row := at.Job(name)
	if row == nil {
		row = &cellstate.Job{Name: name}
	}
	if was := row.Record.GetSpec(); row.Live() && was.GetKind() != spec.GetKind() {
		return nil, changeable(name, was, spec)
	}
	next := &ohmv1.Schedule{Spec: spec, Time: timestamppb.New(now), RequestId: requestID, Through: timestamppb.New(now)}
	if is := row.Schedule; is != nil {
		if next.Launched, next.LeftOut = is.GetLaunched(), is.GetLeftOut(); proto.Equal(is.GetSpec().GetSchedule(), spec.GetSchedule()) {
			next.Through = is.GetThrough()
		}
	}
	sub := &ohmv1.Submitted{Namespace: name.Namespace, Job: name.Name, Unchanged: proto.Equal(row.Schedule.GetSpec(), spec)}
	sub.Next = reconcile.NextDue(&cellstate.Job{Schedule: next}, now)
	if sub.Unchanged {
		w.Guards = append(w.Guards, cellstate.Guard{Key: cellstate.ScheduleKey(name), Revision: row.ScheduleRevision})
		return sub, nil
	}
	sub.Notices = nobodyCan(at, spec)
	w.Records = append(w.Records, cellstate.Record{Key: cellstate.ScheduleKey(name), Value: next, Read: row.ScheduleRevision})
	return sub, nil
}
