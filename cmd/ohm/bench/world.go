package bench

import (
	"context"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// world is what the bench knows of the cell, from the changes that its mirror has applied.
type world struct {
	// placing is called with each placement when it is seen, before anything else.
	placing []func(p *ohmv1.Placement, at time.Time)

	mu       sync.Mutex
	tally    tally
	jobs     map[cellstate.JobName]*job
	full     []cellstate.JobName  // wholly placed, to be removed
	live     int                  // placements
	waiting  int                  // tasks of jobs in the store without a placement
	asked    int64                // placements of which the end was asked for
	first    map[string]time.Time // by scheduler instance: its first placement
	revision cellstate.Revision
	next     int // job
	perJob   int
}

// job is one of the load.
type job struct {
	stored time.Time
	placed int
}

func newWorld(perJob int) *world {
	return &world{
		perJob: perJob, jobs: map[cellstate.JobName]*job{}, first: map[string]time.Time{},
		tally: tally{conflicts: map[string]int64{}},
	}
}

// tally is what has been counted so far; the difference of two is what came between.
type tally struct {
	placed, released, ended int64
	nodeWrites              int64 // of the placements: by node and revision
	puts, deletes           [cellstate.KindMeta + 1]int64
	conflicts               map[string]int64 // claims refused, by reason
	wait, commit            latencies
	started, reported       latencies // placed to started on the node, ended there to that seen
}

func (w *world) count() tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tally
	t.conflicts = maps.Clone(t.conflicts)
	return t
}

func (t tally) minus(earlier tally) tally {
	t.placed -= earlier.placed
	t.released -= earlier.released
	t.ended -= earlier.ended
	t.nodeWrites -= earlier.nodeWrites
	for kind := range t.puts {
		t.puts[kind] -= earlier.puts[kind]
		t.deletes[kind] -= earlier.deletes[kind]
	}
	t.conflicts = maps.Clone(t.conflicts)
	for reason, n := range earlier.conflicts {
		t.conflicts[reason] -= n
	}
	t.wait, t.commit = t.wait.minus(earlier.wait), t.commit.minus(earlier.commit)
	t.started, t.reported = t.started.minus(earlier.started), t.reported.minus(earlier.reported)
	return t
}

// kindNames are the kinds of records that come in numbers.
func kindNames() map[cellstate.Kind]string {
	return map[cellstate.Kind]string{
		cellstate.KindJob: "job", cellstate.KindPlacement: "placement", cellstate.KindEnded: "ended", cellstate.KindStatus: "status",
		cellstate.KindNode: "node", cellstate.KindAlive: "alive", cellstate.KindConflict: "conflict", cellstate.KindWaiting: "waiting",
	}
}

// writesPer are the puts and deletes by kind for each of n.
func (t tally) writesPer(n int64) map[string]float64 {
	out := map[string]float64{}
	for kind, name := range kindNames() {
		for op, count := range map[string]int64{" puts": t.puts[kind], " deletes": t.deletes[kind]} {
			if count > 0 {
				out[name+op] = round(float64(count)/float64(max(1, n)), 3)
			}
		}
	}
	return out
}

// tapped lets see look at each batch once the mirror has applied it.
type tapped struct {
	*etcdstore.Store
	see func(cellstate.Batch)
}

func (t tapped) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	return func(yield func(cellstate.Batch, error) bool) {
		for b, err := range t.Store.Changes(ctx, after) {
			if !yield(b, err) {
				return
			}
			t.see(b)
		}
	}
}

func (w *world) see(b cellstate.Batch) {
	now := time.Now()
	type write struct {
		node     string
		revision cellstate.Revision
	}
	nodes := map[write]bool{} // a batch holds whole revisions
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range b.Changes {
		k := c.Key.Parse()
		if c.Deleted {
			w.tally.deletes[k.Kind]++
		} else {
			w.tally.puts[k.Kind]++
		}
		switch value := c.Record().(type) {
		case *ohmv1.Placement:
			w.place(k.Slot.JobName(), value, now)
			nodes[write{value.GetNode(), c.Revision}] = true
		case *ohmv1.Ended:
			w.tally.ended++
			if last := value.GetStatus(); last.GetStarted() != nil {
				w.tally.started.add(last.GetStarted().AsTime().Sub(value.GetPlacement().GetTime().AsTime()))
				w.tally.reported.add(now.Sub(last.GetEnded().AsTime()))
			}
		case *ohmv1.Conflict:
			w.tally.conflicts[value.GetReason()]++
		}
		if c.Deleted && k.Kind == cellstate.KindPlacement {
			w.live--
			w.tally.released++
		}
		if c.Deleted && k.Kind == cellstate.KindJob {
			delete(w.jobs, k.Job)
		}
	}
	w.tally.nodeWrites += int64(len(nodes))
	w.revision = max(w.revision, b.Revision)
}

// place takes in a new placement. The caller holds mu.
func (w *world) place(name cellstate.JobName, p *ohmv1.Placement, now time.Time) {
	for _, f := range w.placing {
		f(p, now)
	}
	w.live++
	w.tally.placed++
	if _, ok := w.first[p.GetInstance()]; !ok {
		w.first[p.GetInstance()] = now
	}
	j := w.jobs[name]
	if j == nil {
		return
	}
	w.waiting--
	if j.placed++; j.placed == w.perJob {
		w.full = append(w.full, name)
	}
	w.tally.wait.add(now.Sub(j.stored))
	w.tally.commit.add(now.Sub(p.GetTime().AsTime()))
}

func (w *world) state() (live int, placed, ended int64, at cellstate.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live, w.tally.placed, w.tally.ended, w.revision
}

// firstOf is when the first placement of an instance was seen; zero: there is none yet.
func (w *world) firstOf(instance string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first[instance]
}
