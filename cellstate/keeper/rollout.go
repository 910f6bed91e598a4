package keeper

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// rollouts brings the updates of services forward. It remembers the snapshot that was looked at
// last, so that a look costs something only for jobs that are being updated.
type rollouts struct {
	seen *cellstate.Snapshot // nil: none
	due  map[cellstate.JobName]time.Time
}

// plan are the writes that bring rollouts forward, with the names of their jobs, and when there
// will be more although nothing changes.
func (r *rollouts) plan(s *cellstate.Snapshot, now time.Time) (writes []cellstate.Write, names []cellstate.JobName) {
	for was, is := range s.JobChanges(r.seen) {
		if is == nil {
			delete(r.due, was.Name)
		} else if is.Rollout != nil {
			r.due[is.Name] = now
		}
	}
	r.seen = s
	for name, at := range r.due {
		if at.After(now) {
			continue
		}
		delete(r.due, name)
		j := s.Job(name)
		if j == nil {
			continue
		}
		next, wake := reconcile.Advance(j, now)
		if !wake.IsZero() {
			r.due[name] = wake
		}
		if next == nil {
			continue
		}
		w := cellstate.Write{
			Guards:  []cellstate.Guard{{Key: cellstate.JobKey(name), Revision: j.Revision}},
			Records: []cellstate.Record{{Key: cellstate.RolloutKey(name), Value: next, Read: j.RolloutRevision}},
		}
		if reconcile.Reverts(j, next) {
			w = revert(s, j, next.GetMessage(), now)
		}
		writes, names = append(writes, w), append(names, name)
	}
	return writes, names
}

// revert takes a job whose update has failed back to what it was when all was well.
func revert(s *cellstate.Snapshot, j *cellstate.Job, why string, now time.Time) cellstate.Write {
	record, rollout, _ := reconcile.Revert(j, now) // there is something good: Reverts has looked
	if rollout != j.Rollout {
		rollout.Message = why
	}
	w := cellstate.Write{Records: cellstate.JobRecords(j, j.Name, record, rollout)}
	if cellstate.Barred(j.Record.GetSpec(), record.GetSpec()) {
		w.Records = append(w.Records, cellstate.Barrier(s, "rules of job "+j.Name.Name))
	}
	return w
}

// wake is when the first of them is due; zero: none.
func (r *rollouts) wake() (first time.Time) {
	for _, at := range r.due {
		first = earliest(first, at)
	}
	return first
}

// roll brings rollouts forward. It returns when there will be more to do.
func (k *Keeper) roll(ctx context.Context, lead cellstate.Guard, r *rollouts, s *cellstate.Snapshot, now time.Time) (time.Time, error) {
	writes, names := r.plan(s, now)
	if len(writes) == 0 {
		return r.wake(), nil
	}
	applied, err := k.commit(ctx, lead, writes)
	for i, name := range names {
		if i >= len(applied) || !applied[i] {
			r.due[name] = now
		}
	}
	k.log.Debug("updates came forward", zap.Int("jobs", len(writes)))
	return r.wake(), err
}
