package cellstate

import (
	"iter"
	"strings"
)

// RecordRevision is the revision of the record under a key; 0 if there is none, or if
// this release does not know what it is.
func (s *Snapshot) RecordRevision(key Key) Revision {
	switch k := key.Parse(); k.Kind {
	case KindPlacement, KindStatus, KindEnded:
		return s.Job(k.Slot.JobName()).Task(k.Slot).recordRevision(k)
	case KindNode, KindIntent, KindAlive, KindHold:
		return s.Node(k.Node).recordRevision(k)
	case KindJob:
		if j := s.Job(k.Job); j != nil {
			return j.Revision
		}
	case KindWaiting:
		if j := s.Job(k.Job); j != nil {
			return j.WaitingRevision
		}
	case KindRollout:
		if j := s.Job(k.Job); j != nil {
			return j.RolloutRevision
		}
	case KindSchedule:
		if j := s.Job(k.Job); j != nil {
			return j.ScheduleRevision
		}
	case KindRun:
		if j := s.Job(k.Job); j != nil {
			if r := j.Run(k.Run); r != nil {
				return r.Revision
			}
		}
	case KindScheduler, KindInstance:
		return s.Scheduler(k.Name).recordRevision(k)
	case KindConflict:
		if row := first[conflictRow](s, "conflicts", "id", k.Name+"/"+k.ID); row != nil {
			return row.revision
		}
	case KindAsk:
		if row := first[askRow](s, "asks", "id", k.Name+"/"+k.ID); row != nil {
			return row.revision
		}
	case KindExec:
		if row := first[execRow](s, "execs", "id", k.ID); row != nil {
			return row.revision
		}
	case KindMeta:
		_, at := s.Meta(k.Name)
		return at
	case KindQuota, KindShare:
		if q := s.Quota(k.Scope); q != nil && k.Kind == KindQuota {
			return q.Revision
		} else if q != nil {
			return q.Share(k.Spender).Revision
		}
	}
	return 0
}

func (t *Task) recordRevision(k Parsed) Revision {
	switch {
	case t == nil:
	case k.Kind == KindStatus:
		return t.StatusRevision
	case k.Kind == KindPlacement && t.Placement != nil:
		return t.Placement.Revision
	case k.Kind == KindEnded:
		for _, e := range t.Ended {
			if e.Attempt == k.Attempt {
				return e.Revision
			}
		}
	}
	return 0
}

func (n *Node) recordRevision(k Parsed) Revision {
	switch {
	case n == nil:
	case k.Kind == KindNode:
		return n.FactsRevision
	case k.Kind == KindIntent:
		return n.IntentRevision
	case k.Kind == KindAlive:
		return n.AliveRevision
	case k.Kind == KindHold:
		for _, h := range n.Holds {
			if h.GetTxn() == k.ID {
				return h.Revision
			}
		}
	}
	return 0
}

func (s *Scheduler) recordRevision(k Parsed) Revision {
	switch {
	case s == nil:
	case k.Kind == KindScheduler:
		return s.Revision
	case k.Kind == KindInstance:
		for _, i := range s.Instances {
			if i.GetInstance() == k.ID {
				return i.Revision
			}
		}
	}
	return 0
}

// Records are the keys of [from, end) and the revisions of what stands there, in no
// order; with end empty, of all from from on. Where the range is one job's, only that job
// is looked at; else every job and node is.
func (s *Snapshot) Records(from, end Key) iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) {
		r := keyRange{from, end}
		for _, part := range s.parts(r) {
			for key, at := range part {
				if r.has(key) && !yield(key, at) {
					return
				}
			}
		}
	}
}

// parts are the records of those rows that may have some in a range.
func (s *Snapshot) parts(r keyRange) []iter.Seq2[Key, Revision] {
	var parts []iter.Seq2[Key, Revision]
	if job, ok := r.job(); ok {
		if j := s.Job(job); j != nil {
			parts = append(parts, j.taskRecords(r))
		}
		return parts
	}
	if r.touches("tasks/") || r.touches("jobs/") || r.touches("events/") || r.touches("rollouts/") || r.touches("runs/") || r.touches("schedules/") {
		parts = append(parts, s.jobRecords(r))
	}
	if r.touches("nodes/") || r.touches("intents/") || r.touches("alive/") || r.touches("holds/") {
		parts = append(parts, flatten(s.Nodes(), (*Node).records))
	}
	if r.touches("schedulers/") {
		parts = append(parts, flatten(s.Schedulers(), (*Scheduler).records))
	}
	if r.touches("conflicts/") {
		parts = append(parts, flatten(all[conflictRow](s, "conflicts", "id_prefix", ""), func(c *conflictRow) iter.Seq2[Key, Revision] {
			return one("conflicts/"+Key(c.id), c.revision)
		}))
	}
	if r.touches("asks/") {
		parts = append(parts, flatten(all[askRow](s, "asks", "id_prefix", ""), func(a *askRow) iter.Seq2[Key, Revision] {
			return one("asks/"+Key(a.id), a.revision)
		}))
	}
	if r.touches("execs/") {
		parts = append(parts, flatten(all[execRow](s, "execs", "id_prefix", ""), func(e *execRow) iter.Seq2[Key, Revision] {
			return one(ExecKey(e.id), e.revision)
		}))
	}
	if r.touches("quotas/") || r.touches("shares/") {
		parts = append(parts, flatten(s.Quotas(), (*Quota).records))
	}
	if r.touches("meta/") {
		parts = append(parts, flatten(all[metaRow](s, "meta", "id_prefix", ""), func(m *metaRow) iter.Seq2[Key, Revision] {
			return one(MetaKey(m.name), m.revision)
		}))
	}
	return parts
}

// jobRecords are what stands of jobs.
func (s *Snapshot) jobRecords(r keyRange) iter.Seq2[Key, Revision] {
	tasks, jobs, waiting, rollouts, runs := r.touches("tasks/"), r.touches("jobs/"), r.touches("events/"), r.touches("rollouts/"), r.touches("runs/")
	return func(yield func(Key, Revision) bool) {
		for j := range s.jobs.all() {
			if jobs && j.Record != nil && !yield(JobKey(j.Name), j.Revision) {
				return
			}
			if waiting && j.Waiting != nil && !yield(WaitingKey(j.Name), j.WaitingRevision) {
				return
			}
			if rollouts && j.Rollout != nil && !yield(RolloutKey(j.Name), j.RolloutRevision) {
				return
			}
			if j.Schedule != nil && r.touches("schedules/") && !yield(ScheduleKey(j.Name), j.ScheduleRevision) {
				return
			}
			if runs {
				for _, run := range j.Runs {
					if !yield(RunKey(j.Name, run.Number), run.Revision) {
						return
					}
				}
			}
			if !tasks {
				continue
			}
			for key, at := range j.taskRecords(r) {
				if !yield(key, at) {
					return
				}
			}
		}
	}
}

// taskRecords are what stands of the job's tasks, if any of it may be in the range.
func (j *Job) taskRecords(r keyRange) iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) {
		var buf [longestTaskKey]byte
		b := append(buf[:0], "tasks/"...)
		b = append(append(b, j.Name.Namespace...), '/')
		b = append(append(b, j.Name.Name...), '/')
		if len(j.Tasks) == 0 || !r.touches(string(b)) { // the conversion may allocate: once for a job
			return
		}
		for _, t := range j.Tasks {
			for key, at := range t.records() {
				if !yield(key, at) {
					return
				}
			}
		}
	}
}

func (t *Task) records() iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) {
		if t.Placement != nil && !yield(t.Slot.PlacementKey(), t.Placement.Revision) {
			return
		}
		if t.Status != nil && !yield(t.Slot.StatusKey(), t.StatusRevision) {
			return
		}
		for _, e := range t.Ended {
			if !yield(t.Slot.EndedKey(e.Attempt), e.Revision) {
				return
			}
		}
	}
}

func (n *Node) records() iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) {
		if n.Facts != nil && !yield(NodeKey(n.Name), n.FactsRevision) {
			return
		}
		if n.Intent != nil && !yield(IntentKey(n.Name), n.IntentRevision) {
			return
		}
		if n.Alive != nil && !yield(AliveKey(n.Name), n.AliveRevision) {
			return
		}
		for _, h := range n.Holds {
			if !yield(HoldKey(n.Name, TxnID(h.GetTxn())), h.Revision) {
				return
			}
		}
	}
}

func (s *Scheduler) records() iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) {
		if s.Record != nil && !yield(SchedulerKey(s.Name), s.Revision) {
			return
		}
		for _, i := range s.Instances {
			if !yield(InstanceKey(s.Name, i.GetInstance()), i.Revision) {
				return
			}
		}
	}
}

func (q *Quota) records() iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) {
		if q.Record != nil && !yield(QuotaKey(q.Scope), q.Revision) {
			return
		}
		for _, share := range q.Shares {
			if share.Record != nil && !yield(ShareKey(Account{q.Scope, share.Spender}), share.Revision) {
				return
			}
		}
	}
}

func one(key Key, at Revision) iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) { yield(key, at) }
}

func flatten[T any](rows iter.Seq[T], records func(T) iter.Seq2[Key, Revision]) iter.Seq2[Key, Revision] {
	return func(yield func(Key, Revision) bool) {
		for row := range rows {
			for key, at := range records(row) {
				if !yield(key, at) {
					return
				}
			}
		}
	}
}

// all are the jobs in no order.
func (t *jobTable) all() iter.Seq[*Job] {
	return func(yield func(*Job) bool) {
		for _, page := range t.top {
			for _, s := range page.shards {
				for _, j := range s.jobs {
					if !yield(j) {
						return
					}
				}
			}
		}
	}
}

// keyRange is [from, end); with end empty it has no end.
type keyRange struct{ from, end Key }

func (r keyRange) has(k Key) bool { return r.from <= k && (r.end == "" || k < r.end) }

// touches says whether the range may have keys that begin with prefix.
func (r keyRange) touches(prefix string) bool {
	return (r.end == "" || Key(prefix) < r.end) && (Key(prefix) >= r.from || strings.HasPrefix(string(r.from), prefix))
}

// job is the one job whose tasks' records all the range is of.
func (r keyRange) job() (JobName, bool) {
	var parts [8]string
	p := splitKey(string(r.from), parts[:0])
	if p[0] != "tasks" || len(p) < 4 {
		return JobName{}, false
	}
	job := JobName{p[1], p[2]}
	_, end := TasksKeys(job)
	return job, r.end != "" && r.end <= end
}

// Holds says whether a write's guards, fences and records are as they must be for it to
// apply, as far as the snapshot knows. If it does not apply in a store that is not newer
// than the snapshot, then the snapshot is not what stands there.
func (s *Snapshot) Holds(w *Write) bool {
	for _, f := range w.Fences {
		fence := s.scope(f.Scope)
		if n := s.Node(f.Node); n != nil {
			fence = n.Fence
		}
		if fence != f.Compared {
			return false
		}
	}
	for _, r := range w.Records {
		if r.Read != ReadGuarded && s.RecordRevision(r.Key) != r.Read {
			return false
		}
	}
	for _, g := range w.Guards {
		if !s.holds(g) {
			return false
		}
	}
	return true
}

func (s *Snapshot) holds(g Guard) bool {
	fits := func(at Revision) bool { return at == g.Revision || g.NotNewer && at < g.Revision }
	if g.End == "" {
		return fits(s.RecordRevision(g.Key))
	}
	for _, at := range s.Records(g.Key, g.End) {
		if !fits(at) {
			return false
		}
	}
	return true
}
