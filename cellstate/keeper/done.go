package keeper

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// marker remembers the snapshot that was looked at last, so that a look at the cell
// costs a decision only for the jobs that have changed since, or whose time has come.
type marker struct {
	seen  *cellstate.Snapshot // nil: none
	wakes map[cellstate.JobName]time.Time
	queue wakeQueue // every wake is in it; others in it have been overtaken

	after map[cellstate.JobName]map[cellstate.JobName]bool // jobs that wait, by those that they wait for
}

func newMarker() *marker {
	return &marker{wakes: map[cellstate.JobName]time.Time{}, after: map[cellstate.JobName]map[cellstate.JobName]bool{}}
}

// plan are the writes that mark jobs done of which nothing will ever start again, let runs and
// jobs follow that have waited for that, and release what is left of broken gangs, with the names
// of the jobs.
func (m *marker) plan(s *cellstate.Snapshot, now time.Time) (writes []cellstate.Write, names []cellstate.JobName) {
	look := func(j *cellstate.Job) {
		m.depends(j)
		var w *cellstate.Write
		gate, at := reconcile.Gate(s, j, now)
		if gate != nil {
			w = &cellstate.Write{Records: []cellstate.Record{{Key: cellstate.JobKey(j.Name), Value: gate, Read: j.Revision}}}
		}
		switch stands := slices.ContainsFunc(j.Tasks, func(t *cellstate.Task) bool { return t.Placement != nil }); {
		case w != nil:
		case stands:
			release, due := releaseWrite(s, j, now)
			if at = earliest(at, due); len(release.Records) > 0 {
				w = &release
			}
		default:
			decision := reconcile.Job(s, j, now)
			at = earliest(at, decision.Wake)
			w = follow(s, j, decision.Done, now)
		}
		if w == nil {
			var next time.Time
			w, next = launch(s, j, now)
			at = earliest(at, next)
		}
		if m.wake(j.Name, at); w != nil {
			m.wake(j.Name, time.Time{}) // what it changes is looked at
			writes, names = append(writes, *w), append(names, j.Name)
		}
	}
	for was, is := range s.JobChanges(m.seen) {
		if is == nil {
			delete(m.wakes, was.Name)
			m.ended(was.Name, now)
			continue
		}
		look(is)
		if is.Record.GetDone() != nil || is.Record == nil || was != nil && len(was.Runs) != len(is.Runs) {
			m.ended(is.Name, now)
		}
	}
	m.seen = s
	for next := m.due(); !next.IsZero() && !next.After(now); next = m.due() {
		name := heap.Pop(&m.queue).(wake).job
		delete(m.wakes, name)
		if j := s.Job(name); j != nil {
			look(j)
		}
	}
	return writes, names
}

// depends notes what a job waits for.
func (m *marker) depends(j *cellstate.Job) {
	if !j.Live() || !j.Waits() {
		return
	}
	for _, d := range j.Record.GetAfter() {
		on := cellstate.JobName{Namespace: j.Name.Namespace, Name: d.GetJob()}
		if m.after[on] == nil {
			m.after[on] = map[cellstate.JobName]bool{}
		}
		m.after[on][j.Name] = true
	}
}

// ended has those looked at that may have waited for a job; who still does notes it again.
func (m *marker) ended(job cellstate.JobName, now time.Time) {
	for name := range m.after[job] {
		m.wake(name, now)
	}
	delete(m.after, job)
}

// wake has the job looked at again at a time although nothing of it changes; zero: never.
func (m *marker) wake(job cellstate.JobName, at time.Time) {
	switch {
	case at.IsZero():
		delete(m.wakes, job)
	case !m.wakes[job].Equal(at):
		m.wakes[job] = at
		heap.Push(&m.queue, wake{at, job})
	}
}

// due is the first of the wakes; zero: none.
func (m *marker) due() time.Time {
	for len(m.queue) > 0 {
		first := m.queue[0]
		if at, ok := m.wakes[first.job]; ok && at.Equal(first.at) {
			return at
		}
		heap.Pop(&m.queue)
	}
	return time.Time{}
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

// mark marks jobs done. It returns when to look again if nothing changes. A job of which
// the write did not apply is looked at again at once.
func (k *Keeper) mark(ctx context.Context, lead cellstate.Guard, m *marker, s *cellstate.Snapshot, now time.Time) (time.Time, error) {
	writes, names := m.plan(s, now)
	if len(writes) == 0 {
		return m.due(), nil
	}
	applied, err := k.commit(ctx, lead, writes)
	for i, name := range names {
		if i >= len(applied) || !applied[i] {
			m.wake(name, now)
		}
	}
	return m.due(), err
}

// wakeQueue is a heap of wakes, the first on top.
type wakeQueue []wake

type wake struct {
	at  time.Time
	job cellstate.JobName
}

func (q wakeQueue) Len() int           { return len(q) }
func (q wakeQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q wakeQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *wakeQueue) Push(w any)        { *q = append(*q, w.(wake)) }
func (q *wakeQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
