package cellstate

import (
	"iter"
	"maps"
	"slices"
)

// changeLog notes which jobs each batch has touched, the newest first, so that whoever
// follows snapshot by snapshot need not compare tables.
type changeLog struct {
	jobs   []JobName
	before *changeLog
	deep   int
}

// deepestLog bounds how many batches are remembered; who is further behind compares.
const deepestLog = 128

func (l *changeLog) with(jobs []*Job) *changeLog {
	next := &changeLog{jobs: make([]JobName, len(jobs))}
	for i, j := range jobs {
		next.jobs[i] = j.Name
	}
	if l != nil && l.deep < deepestLog {
		next.before, next.deep = l, l.deep+1
	}
	return next
}

// since are the jobs touched after an older log was the newest, each once; false if that
// is not remembered.
func (l *changeLog) since(older *changeLog) (names iter.Seq[JobName], ok bool) {
	if l == older {
		return slices.Values[[]JobName](nil), true
	}
	if l.before == older { // the common case
		return slices.Values(l.jobs), true
	}
	all := map[JobName]bool{}
	for at := l; at != older; at = at.before {
		if at == nil {
			return nil, false
		}
		for _, name := range at.jobs {
			all[name] = true
		}
	}
	return maps.Keys(all), true
}

// JobChanges are the rows that differ from those of an older snapshot, as (was, is) in
// no order; nil stands for none. Of a nil snapshot every row differs.
func (s *Snapshot) JobChanges(since *Snapshot) iter.Seq2[*Job, *Job] {
	if since == nil {
		then := newJobTable()
		return s.jobs.changes(&then)
	}
	names, ok := s.log.since(since.log) // a log is of one line of snapshots: no other has it
	if !ok {
		return s.jobs.changes(&since.jobs)
	}
	return func(yield func(was, is *Job) bool) {
		for name := range names {
			if was, is := since.Job(name), s.Job(name); was != is && !yield(was, is) {
				return
			}
		}
	}
}
