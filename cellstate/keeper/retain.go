package keeper

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// sweep removes what is kept long enough.
func (k *Keeper) sweep(ctx context.Context, lead cellstate.Guard, s *cellstate.Snapshot, now time.Time, l Limits) error {
	var writes []cellstate.Write
	removed := expired(s, now, l)
	for _, j := range removed {
		writes = append(writes, removal(s, j))
	}
	gone := map[*cellstate.Job]bool{}
	for _, j := range removed {
		gone[j] = true
	}
	for j := range s.Jobs() {
		if gone[j] {
			continue
		}
		writes = append(writes, trim(j, now, l)...)
		if w := staleWaiting(j); w != nil {
			writes = append(writes, *w)
		}
	}
	if len(writes) == 0 {
		return nil
	}
	if len(removed) > 0 {
		k.log.Info("removing jobs that have been done for long enough", zap.Int("jobs", len(removed)))
	}
	_, err := k.commit(ctx, lead, writes)
	return err
}

// patience is how many looks at a store that is about to be full it takes until it is not
// history that fills it; squeezeAtOnce is how many jobs go then before history is looked at
// again, of which their removal makes more.
const (
	patience      = 3
	squeezeAtOnce = 2 * writesAtOnce
)

// squeezed are the limits for a store that is about to be full though it has forgotten its
// past: the older half of the done jobs goes, and soon.
func (l Limits) squeezed(squeezing bool, s *cellstate.Snapshot) Limits {
	if !squeezing {
		return l
	}
	done := 0
	for j := range s.Jobs() {
		if j.Record.GetDone() != nil {
			done++
		}
	}
	l.DoneJobs, l.Sweep = min(l.DoneJobs, max(done/2, done-squeezeAtOnce)), min(l.Sweep, l.Compact/hurry)
	return l
}

// expired are the done jobs that may go: the old ones, and the oldest beyond the number
// that is kept. One whose tasks are still there stays.
func expired(s *cellstate.Snapshot, now time.Time, l Limits) []*cellstate.Job {
	var done []*cellstate.Job
	for j := range s.Jobs() {
		live := slices.ContainsFunc(j.Tasks, func(t *cellstate.Task) bool { return t.Placement != nil })
		if j.Record.GetDone() != nil && !live {
			done = append(done, j)
		}
	}
	ended := func(j *cellstate.Job) time.Time { return j.Record.GetDone().GetTime().AsTime() }
	slices.SortStableFunc(done, func(a, b *cellstate.Job) int { return ended(a).Compare(ended(b)) })
	n := max(0, len(done)-l.DoneJobs)
	for n < len(done) && now.Sub(ended(done[n])) >= l.DoneAfter {
		n++
	}
	return done[:n]
}

// removal removes a done job with all records of its tasks, unless anything of it has
// changed since the snapshot.
func removal(s *cellstate.Snapshot, j *cellstate.Job) cellstate.Write {
	from, end := cellstate.TasksKeys(j.Name)
	w := cellstate.Write{
		Guards:  []cellstate.Guard{{Key: from, End: end, Revision: s.Revision(), NotNewer: true, Delete: true}},
		Fences:  cellstate.DropScopes(s, j.Name),
		Records: []cellstate.Record{{Key: cellstate.JobKey(j.Name), Read: j.Revision}},
	}
	if j.Waiting != nil {
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.WaitingKey(j.Name), Read: j.WaitingRevision})
	}
	if j.Rollout != nil {
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.RolloutKey(j.Name), Read: j.RolloutRevision})
	}
	return w
}

// trimAtOnce bounds the records of one write.
const trimAtOnce = 50

// trim removes ended attempts of a job that is not done. A slot keeps its newest ones,
// and of a job that runs to its end every attempt that counts: the retries that are
// left are told from what is stored. A slot of an older version, which no claim will name
// any more, goes wholly when its last attempt has been over for as long as a done job
// is kept.
func trim(j *cellstate.Job, now time.Time, l Limits) []cellstate.Write {
	if j.Record == nil || j.Record.GetDone() != nil {
		return nil
	}
	var records []cellstate.Record
	for _, t := range j.Tasks {
		keep := l.Attempts
		if j.AsOf(t.Slot) == nil && t.Placement == nil && over(t, now) >= l.DoneAfter {
			keep = 0
		}
		for _, e := range t.Ended[:max(0, len(t.Ended)-keep)] {
			if !counts(j, t.Slot, e) {
				records = append(records, cellstate.Record{Key: t.Slot.EndedKey(e.Attempt), Read: e.Revision})
			}
		}
	}
	var writes []cellstate.Write
	for part := range slices.Chunk(records, trimAtOnce) {
		writes = append(writes, cellstate.Write{Records: part})
	}
	return writes
}

// over is how long the slot's last attempt has been over, at least.
func over(t *cellstate.Task, now time.Time) time.Duration {
	if len(t.Ended) == 0 {
		return 0
	}
	last := t.Ended[len(t.Ended)-1]
	if end := last.GetStatus().GetEnded(); end != nil {
		return now.Sub(end.AsTime())
	}
	return 0
}

func counts(job *cellstate.Job, slot cellstate.Slot, e *cellstate.Ended) bool {
	spec, status := job.Record.GetSpec(), e.GetStatus()
	return (spec.GetKind() == "batch" || spec.GetKind() == "ml") && job.Current(slot) &&
		(reconcile.Classify(status) == reconcile.Success || reconcile.Spends(status, spec))
}

// staleWaiting removes a scheduler's word on a job that does not wait for it any more.
func staleWaiting(j *cellstate.Job) *cellstate.Write {
	if j.Waiting == nil || j.Record != nil && j.Record.GetDone() == nil {
		return nil
	}
	return &cellstate.Write{Records: []cellstate.Record{{Key: cellstate.WaitingKey(j.Name), Read: j.WaitingRevision}}}
}
