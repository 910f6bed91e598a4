package keeper

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// follow is the write by which a job of which nothing is live comes forward: it is marked done, or
// the next of its runs takes the place of one that is. Runs that somebody has stopped before
// they began end first. nil: nothing is to be written. done is how the job ends now.
func follow(s *cellstate.Snapshot, j *cellstate.Job, done *ohmv1.Outcome, now time.Time) *cellstate.Write {
	ended := j
	if done != nil {
		marked := *j
		marked.Record = proto.CloneOf(j.Record)
		marked.Record.Done = done
		ended = &marked
	}
	waiting := j.WaitingRuns()
	switch {
	case len(waiting) > 0 && waiting[0].Number <= j.Record.GetStoppedThrough():
		w := cellstate.Write{Guards: []cellstate.Guard{{Key: cellstate.JobKey(j.Name), Revision: j.Revision}}}
		for _, r := range waiting {
			if r.Number > j.Record.GetStoppedThrough() || len(w.Records) == trimAtOnce {
				break
			}
			run := proto.CloneOf(r.Run)
			run.Job.Done, run.Cause = &ohmv1.Outcome{State: reconcile.Stopped, Time: timestamppb.New(now)}, "it was stopped before it began"
			w.Records = append(w.Records, cellstate.Record{Key: cellstate.RunKey(j.Name, r.Number), Value: run, Read: r.Revision})
		}
		return &w
	case len(waiting) > 0 && (j.Record == nil || ended.Record.GetDone() != nil):
		next := waiting[0]
		record := reconcile.Begin(j, next.Number, next.GetJob())
		w := doneWrite(s, j, record)
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.RunKey(j.Name, next.Number), Read: next.Revision})
		if j.Record != nil {
			w.Records = append(w.Records, reconcile.Over(s, ended, now))
		}
		if cellstate.Barred(j.Record.GetSpec(), record.GetSpec()) {
			w.Records = append(w.Records, cellstate.Barrier(s, "rules of job "+j.Name.Name))
		}
		return &w
	case done != nil:
		w := doneWrite(s, j, ended.Record)
		return &w
	}
	return nil
}
