package cellstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-memdb"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// NewSnapshot builds the view of a store at a revision from all its records and the
// fences of all nodes at that revision.
func NewSnapshot(at Revision, records []Change, fences map[NodeName]Revision) (*Snapshot, error) {
	db, err := newDB()
	if err != nil {
		return nil, err
	}
	a := newApplier(&Snapshot{db: db})
	for _, c := range records {
		a.change(c)
	}
	for name, fence := range fences {
		a.node(name).Fence = fence
	}
	return a.finish(at)
}

// Apply returns the view after a batch of changes. A node of gaps has had its fence
// bumped by a write of which the batch, or one before, does not show everything: an
// event was lost, and whoever applies must load again.
func (s *Snapshot) Apply(b Batch) (next *Snapshot, gaps []NodeName, err error) {
	if len(b.Changes) == 0 {
		copied := *s
		copied.revision = max(s.revision, b.Revision)
		return &copied, nil, nil
	}
	a := newApplier(s)
	chain := fenceChain{node: a.node}
	for _, c := range b.Changes {
		chain.at(c.Revision)
		a.change(c)
		chain.see(c)
	}
	chain.at(0)
	next, err = a.finish(b.Revision)
	return next, chain.gaps, err
}

// applier collects the rows that a batch touches, each copied once.
type applier struct {
	next       *Snapshot
	txn        *memdb.Txn
	nodes      map[NodeName]*Node
	jobs       map[JobName]*Job
	tasks      map[Slot]*Task
	schedulers map[string]*Scheduler
	placed     map[NodeName]map[Slot]*Placement // nodes whose placements change
	err        error
}

func newApplier(from *Snapshot) *applier {
	next := *from
	next.db = from.db.Snapshot()
	return &applier{
		next: &next, txn: next.db.Txn(true),
		nodes: map[NodeName]*Node{}, jobs: map[JobName]*Job{}, tasks: map[Slot]*Task{},
		schedulers: map[string]*Scheduler{}, placed: map[NodeName]map[Slot]*Placement{},
	}
}

// row copies the stored row once a batch, or makes a new one.
func row[K comparable, T any](a *applier, seen map[K]*T, key K, table, id string, fresh func() *T) *T {
	if r := seen[key]; r != nil {
		return r
	}
	raw, err := a.txn.First(table, "id", id)
	if err != nil {
		a.err = err
	}
	r := fresh()
	if raw != nil {
		*r = *raw.(*T)
	}
	seen[key] = r
	return r
}

func (a *applier) node(name NodeName) *Node {
	return row(a, a.nodes, name, "nodes", string(name), func() *Node { return &Node{Name: name} })
}

func (a *applier) job(name JobName) *Job {
	if j := a.jobs[name]; j != nil {
		return j
	}
	j := row(a, a.jobs, name, "jobs", name.String(), func() *Job { return &Job{Name: name} })
	j.Tasks = slices.Clone(j.Tasks)
	return j
}

func (a *applier) scheduler(name string) *Scheduler {
	if s := a.schedulers[name]; s != nil {
		return s
	}
	s := row(a, a.schedulers, name, "schedulers", name, func() *Scheduler { return &Scheduler{Name: name} })
	s.Instances = slices.Clone(s.Instances)
	return s
}

func (a *applier) task(slot Slot) *Task {
	if t := a.tasks[slot]; t != nil {
		return t
	}
	j := a.job(slot.JobName())
	i, ok := j.find(slot)
	if !ok {
		j.Tasks = slices.Insert(j.Tasks, i, &Task{Slot: slot})
	} else {
		copied := *j.Tasks[i]
		j.Tasks[i] = &copied
	}
	a.tasks[slot] = j.Tasks[i]
	return j.Tasks[i]
}

// place puts p on its node or, if it is nil, takes the slot off the node.
func (a *applier) place(name NodeName, slot Slot, p *Placement) {
	on := a.placed[name]
	if on == nil {
		on = map[Slot]*Placement{}
		for _, p := range a.node(name).Placements {
			on[p.Slot] = p
		}
		a.placed[name] = on
	}
	if p == nil {
		delete(on, slot)
	} else {
		on[slot] = p
	}
}

func value[T proto.Message](c Change) T {
	v, _ := c.Value.(T) // nil when the record was deleted
	return v
}

func (a *applier) change(c Change) {
	k := c.Key.Parse()
	room := func() { a.next.roomRevision = max(a.next.roomRevision, c.Revision) }
	rev := c.Revision
	if c.Deleted {
		rev = 0
	}
	switch k.Kind {
	case KindJob:
		j := a.job(k.Job)
		j.Record, j.Revision = value[*ohmv1.Job](c), rev
		for _, t := range j.Tasks { // what a node's agent is told depends on the job, too
			if t.Placement != nil {
				a.node(NodeName(t.Placement.GetNode()))
			}
		}
		a.touchJobs(c)
	case KindPlacement:
		t := a.task(k.Slot)
		if old := t.Placement; old != nil {
			a.place(NodeName(old.GetNode()), k.Slot, nil)
			room()
		}
		t.Placement = nil
		if p := value[*ohmv1.Placement](c); p != nil {
			t.Placement = &Placement{Placement: p, Slot: k.Slot, Revision: rev}
			a.place(NodeName(p.GetNode()), k.Slot, t.Placement)
		}
		a.touchJobs(c)
	case KindStatus:
		t := a.task(k.Slot)
		t.Status, t.StatusRevision = value[*ohmv1.Status](c), rev
		a.touchJobs(c)
	case KindEnded:
		t := a.task(k.Slot)
		t.Ended = slices.DeleteFunc(slices.Clone(t.Ended), func(e *Ended) bool { return e.Attempt == k.Attempt })
		if e := value[*ohmv1.Ended](c); e != nil {
			t.Ended = append(t.Ended, &Ended{Ended: e, Attempt: k.Attempt, Revision: rev})
			slices.SortFunc(t.Ended, func(x, y *Ended) int { return x.Attempt - y.Attempt })
		}
		a.touchJobs(c)
	case KindWaiting:
		j := a.job(k.Job)
		j.Waiting, j.WaitingRevision = value[*ohmv1.Waiting](c), rev
	case KindNode:
		n := a.node(k.Node)
		n.Facts, n.FactsRevision = value[*ohmv1.Node](c), rev
		room()
	case KindIntent:
		n := a.node(k.Node)
		n.Intent, n.IntentRevision = value[*ohmv1.Intent](c), rev
		room()
	case KindAlive:
		n := a.node(k.Node)
		n.Alive, n.AliveRevision = value[*ohmv1.Alive](c), rev
		room()
	case KindHold:
		n := a.node(k.Node)
		n.Holds = slices.DeleteFunc(slices.Clone(n.Holds), func(h *Hold) bool { return h.GetTxn() == k.ID })
		if h := value[*ohmv1.Hold](c); h != nil {
			n.Holds = append(n.Holds, &Hold{Hold: h, Revision: rev})
			slices.SortFunc(n.Holds, func(x, y *Hold) int { return strings.Compare(x.GetTxn(), y.GetTxn()) })
		}
		room()
	case KindScheduler:
		a.scheduler(k.Name).Record = value[*ohmv1.Scheduler](c)
	case KindInstance:
		s := a.scheduler(k.Name)
		s.Instances = slices.DeleteFunc(s.Instances, func(i Instance) bool { return i.GetInstance() == k.ID })
		if i := value[*ohmv1.SchedulerInstance](c); i != nil {
			s.Instances = append(s.Instances, Instance{SchedulerInstance: i, Revision: rev})
			slices.SortFunc(s.Instances, func(x, y Instance) int { return strings.Compare(x.GetInstance(), y.GetInstance()) })
		}
	case KindConflict:
		a.put("conflicts", &conflictRow{id: k.Name + "/" + k.ID, record: value[*ohmv1.Conflict](c)}, c.Deleted)
	case KindMeta:
		m := &metaRow{name: k.Name, record: value[*ohmv1.Meta](c), revision: rev}
		a.put("meta", m, c.Deleted)
		if k.Name == "incarnation" {
			a.next.incarnation = m.record.GetValue()
		}
	}
}

func (a *applier) touchJobs(c Change) { a.next.jobsRevision = max(a.next.jobsRevision, c.Revision) }

func (a *applier) put(table string, row any, gone bool) {
	var err error
	if gone {
		if err = a.txn.Delete(table, row); err == memdb.ErrNotFound {
			err = nil
		}
	} else {
		err = a.txn.Insert(table, row)
	}
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("snapshot table %s: %w", table, err)
	}
}

func (a *applier) finish(at Revision) (*Snapshot, error) {
	for name, on := range a.placed {
		n := a.node(name)
		n.Placements = slices.SortedFunc(maps.Values(on), func(x, y *Placement) int { return x.Slot.Compare(y.Slot) })
		n.used = nil
	}
	for _, n := range a.nodes {
		if n.used == nil {
			n.used = charge(n.Placements)
		}
		// A fence is never deleted, so a node that goes keeps a row that knows it.
		a.put("nodes", n, n.Facts == nil && n.Intent == nil && n.Alive == nil && n.Fence == 0 && len(n.Placements)+len(n.Holds) == 0)
	}
	for _, j := range a.jobs {
		j.Tasks = slices.DeleteFunc(j.Tasks, func(t *Task) bool {
			return t.Placement == nil && t.Status == nil && len(t.Ended) == 0
		})
		a.put("jobs", j, j.Record == nil && j.Waiting == nil && len(j.Tasks) == 0)
	}
	for _, s := range a.schedulers {
		a.put("schedulers", s, s.Record == nil && len(s.Instances) == 0)
	}
	if a.err != nil {
		return nil, a.err
	}
	a.txn.Commit()
	a.next.revision = max(a.next.revision, at)
	return a.next, nil
}

// fenceChain follows the fences of nodes from the records that came with their
// bumps. Invariant: a known fence is the mod revision of the node's fence in the store,
// as long as no event was lost.
type fenceChain struct {
	node     func(NodeName) *Node
	revision Revision
	bumps    map[NodeName]*bump
	gaps     []NodeName
}

type bump struct {
	compared Revision
	records  int
	seen     int
}

// see notes a record of the present revision.
func (f *fenceChain) see(c Change) {
	var name string
	var fence *ohmv1.Fence
	switch v := c.Value.(type) {
	case *ohmv1.Placement:
		name, fence = v.GetNode(), v.GetFence()
	case *ohmv1.Node:
		name, fence = v.GetName(), v.GetFence()
	case *ohmv1.Intent:
		name, fence = v.GetNode(), v.GetFence()
	case *ohmv1.Hold:
		name, fence = v.GetNode(), v.GetFence()
	}
	if fence == nil {
		return
	}
	if f.bumps == nil {
		f.bumps = map[NodeName]*bump{}
	}
	b := f.bumps[NodeName(name)]
	if b == nil {
		b = &bump{compared: Revision(fence.GetCompared()), records: int(fence.GetRecords())}
		f.bumps[NodeName(name)] = b
	}
	b.seen++
}

// at ends the present revision and begins another.
func (f *fenceChain) at(r Revision) {
	if r == f.revision {
		return
	}
	for name, b := range f.bumps {
		n := f.node(name)
		if n.Fence >= f.revision {
			continue // the load saw it already
		}
		if n.Fence != b.compared || b.seen != b.records {
			f.gaps = append(f.gaps, name)
		}
		n.Fence = f.revision
	}
	clear(f.bumps)
	f.revision = r
}
