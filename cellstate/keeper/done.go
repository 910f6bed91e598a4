package keeper

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// marker remembers which job rows have been looked at, so that a look at the cell
// costs a decision only for those that have changed, or whose time has come.
type marker struct {
	jobs map[cellstate.JobName]looked
	at   cellstate.Revision // of the last change of a job that was looked at
	due  time.Time          // the first of the wakes; zero: none
}

type looked struct {
	row  *cellstate.Job
	wake time.Time // zero: never
}

func newMarker() *marker { return &marker{jobs: map[cellstate.JobName]looked{}} }

// plan are the writes that mark jobs done of which nothing will ever start again, and
// the time at which more may come to be although nothing changes.
func (m *marker) plan(s *cellstate.Snapshot, now time.Time) (writes []cellstate.Write, names []cellstate.JobName) {
	if s.JobsRevision() == m.at && (m.due.IsZero() || now.Before(m.due)) {
		return nil, nil
	}
	m.at, m.due = s.JobsRevision(), time.Time{}
	next := make(map[cellstate.JobName]looked, len(m.jobs))
	for scheduler := range s.Schedulers() {
		for j := range s.JobsOf(scheduler.Name) {
			was := m.jobs[j.Name]
			if was.row != j || !was.wake.IsZero() && !now.Before(was.wake) {
				decision := reconcile.Job(s, j, now)
				was = looked{j, decision.Wake}
				if decision.Done != nil {
					record := proto.CloneOf(j.Record)
					record.Done = decision.Done
					writes = append(writes, doneWrite(s, j, record))
					names = append(names, j.Name)
				}
			}
			next[j.Name] = was
			m.due = earliest(m.due, was.wake)
		}
	}
	m.jobs = next
	return writes, names
}

// doneWrite compares everything that the decision was made from: the job's record and
// all records of its tasks.
func doneWrite(s *cellstate.Snapshot, j *cellstate.Job, record proto.Message) cellstate.Write {
	from, end := cellstate.TasksKeys(j.Name)
	return cellstate.Write{
		Guards:  []cellstate.Guard{{Key: from, End: end, Revision: s.Revision(), NotNewer: true}},
		Records: []cellstate.Record{{Key: cellstate.JobKey(j.Name), Value: record, Read: j.Revision}},
	}
}

// forget makes the jobs be looked at again: their writes did not apply.
func (m *marker) forget(names ...cellstate.JobName) {
	for _, name := range names {
		delete(m.jobs, name)
		m.at = 0
	}
}

// mark marks jobs done. It returns when to look again if nothing changes.
func (k *Keeper) mark(ctx context.Context, lead cellstate.Guard, m *marker, s *cellstate.Snapshot, now time.Time) (time.Time, error) {
	writes, names := m.plan(s, now)
	if len(writes) == 0 {
		return m.due, nil
	}
	applied, err := k.commit(ctx, lead, writes)
	for i, name := range names {
		if i >= len(applied) || !applied[i] {
			m.forget(name)
		}
	}
	return m.due, err
}
