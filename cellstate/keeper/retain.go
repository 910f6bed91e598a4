package keeper

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// sweep removes what is kept long enough.
func (k *Keeper) sweep(ctx context.Context, lead cellstate.Guard, s *cellstate.Snapshot, now time.Time, l Limits) error {
	var writes []cellstate.Write
	removed := expired(s, now, l)
	for _, j := range removed {
		writes = append(writes, removal(s, j, !l.squeezing))
	}
	gone := map[*cellstate.Job]bool{}
	for _, j := range removed {
		gone[j] = true
	}
	writes = append(writes, oldRuns(s, now, l)...)
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
// past: the older half of the done jobs goes, and of the runs that
// are over, and soon, and of what goes nothing is told any more.
func (l Limits) squeezed(squeezing bool, s *cellstate.Snapshot) Limits {
	if !squeezing {
		return l
	}
	done, runs := 0, 0
	for j := range s.Jobs() {
		if runs += len(j.Runs); j.Record.GetDone() != nil {
			done++
		}
	}
	l.squeezing = true
	l.Runs = min(l.Runs, max(runs/2, runs-squeezeAtOnce))
	l.DoneJobs, l.Sweep = min(l.DoneJobs, max(done/2, done-squeezeAtOnce)), min(l.Sweep, l.Compact/hurry)
	return l
}

// expired are the done jobs that may go: the old ones, and the oldest beyond the number
// that is kept. One whose tasks are still there stays.
func expired(s *cellstate.Snapshot, now time.Time, l Limits) []*cellstate.Job {
	var done []*cellstate.Job
	for j := range s.Jobs() {
		live := slices.ContainsFunc(j.Tasks, func(t *cellstate.Task) bool { return t.Placement != nil })
		if j.Record.GetDone() != nil && !live && len(j.WaitingRuns()) == 0 {
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

// oldRuns removes what is kept of runs that are over: the old ones, the oldest of a job beyond
// the number that is kept of each, and the oldest of all beyond the number that is kept.
func oldRuns(s *cellstate.Snapshot, now time.Time, l Limits) []cellstate.Write {
	type past struct {
		key   cellstate.Key
		read  cellstate.Revision
		ended time.Time
	}
	var kept []past
	var records []cellstate.Record
	for j := range s.Jobs() {
		over := j.Runs[:len(j.Runs)-len(j.WaitingRuns())]
		for i, r := range over {
			p := past{cellstate.RunKey(j.Name, r.Number), r.Revision, r.GetJob().GetDone().GetTime().AsTime()}
			if now.Sub(p.ended) >= l.RunsFor || len(over)-i > l.RunsOfJob {
				records = append(records, cellstate.Record{Key: p.key, Read: p.read})
			} else {
				kept = append(kept, p)
			}
		}
	}
	if n := len(kept) - l.Runs; n > 0 {
		slices.SortFunc(kept, func(a, b past) int { return a.ended.Compare(b.ended) })
		for _, p := range kept[:n] {
			records = append(records, cellstate.Record{Key: p.key, Read: p.read})
		}
	}
	var writes []cellstate.Write
	for part := range slices.Chunk(records, trimAtOnce) {
		writes = append(writes, cellstate.Write{Records: part})
	}
	return writes
}

// removal removes a done job with all records of its tasks, unless anything of it has
// changed since the snapshot. tell: what is to be known of its run stays.
func removal(s *cellstate.Snapshot, j *cellstate.Job, tell bool) cellstate.Write {
	from, end := cellstate.TasksKeys(j.Name)
	w := cellstate.Write{
		Guards:  []cellstate.Guard{{Key: from, End: end, Revision: s.Revision(), NotNewer: true, Delete: true}},
		Fences:  cellstate.DropScopes(s, j.Name),
		Records: []cellstate.Record{{Key: cellstate.JobKey(j.Name), Read: j.Revision}},
	}
	if tell {
		w.Records = append(w.Records, reconcile.Over(s, j, j.Record.GetDone().GetTime().AsTime()))
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

// trim removes ended attempts of a job that is not done. A slot keeps its first ones and its newest,
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
		first, keep := reconcile.FirstAttempts, l.Attempts
		if j.AsOf(t.Slot) == nil && t.Placement == nil && over(t, now) >= l.DoneAfter {
			first, keep = 0, 0
		}
		for _, e := range t.Ended[min(first, len(t.Ended)):max(min(first, len(t.Ended)), len(t.Ended)-keep)] {
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
	return jobspec.RunsToEnd(spec) && job.Current(slot) &&
		(reconcile.Classify(status) == reconcile.Success || reconcile.Spends(status, spec))
}

// staleWaiting removes a scheduler's word on a job that does not wait for it any more.
func staleWaiting(j *cellstate.Job) *cellstate.Write {
	if j.Waiting == nil || j.Record != nil && j.Record.GetDone() == nil {
		return nil
	}
	return &cellstate.Write{Records: []cellstate.Record{{Key: cellstate.WaitingKey(j.Name), Read: j.WaitingRevision}}}
}
