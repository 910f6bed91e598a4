package cellstate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-memdb"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// NewSnapshot builds the view of a store at a revision from all its records and the
// fences of all nodes and scopes at that revision.
func NewSnapshot(at Revision, records []Change, fences map[NodeName]Revision, scopes ...map[string]Revision) (*Snapshot, error) {
	db, err := newDB()
	if err != nil {
		return nil, err
	}
	a := newApplier(&Snapshot{db: db, nodes: newNodeTable(nil, 0), jobs: newJobTable()})
	for i := range records {
		a.change(&records[i])
	}
	for name, fence := range fences {
		a.node(name).Fence = fence
	}
	for _, of := range scopes {
		for name, fence := range of {
			a.put("scopes", &scopeRow{name, fence}, false)
		}
	}
	s, err := a.finish(at)
	if s != nil {
		s.log = &changeLog{} // nobody has seen what was before
	}
	return s, err
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
	a.nodes = make([]*Node, 0, min(len(b.Changes), len(s.nodes.nodes.of)))
	chain := fenceChain{node: a.node, scope: a.scope}
	for i := range b.Changes {
		c := &b.Changes[i]
		chain.at(c.Revision)
		a.change(c)
		chain.see(c)
	}
	chain.at(0)
	next, err = a.finish(b.Revision)
	return next, chain.gaps, err
}

// applier makes the next snapshot. It writes only to rows and pages that carry its stamp.
type applier struct {
	next  *Snapshot
	txn   *memdb.Txn
	stamp uint64
	nodes []*Node            // touched
	added map[NodeName]*Node // of them, those that are not in the table yet
	jobs  []*Job             // touched
	last  *Job               // touched last: changes of one job follow each other
	at    *Node              // likewise
	drops drops              // of last
	loose []*Job             // with tasks of which perhaps nothing is stored any more
	err   error

	quotas quotaEdits
}

func newApplier(from *Snapshot) *applier {
	next := *from
	next.stamp++
	return &applier{next: &next, stamp: next.stamp, added: map[NodeName]*Node{}}
}

// rest is the transaction on the rows that are not on the placement path.
func (a *applier) rest() *memdb.Txn {
	if a.txn == nil {
		a.next.db = a.next.db.Snapshot()
		a.txn = a.next.db.Txn(true)
	}
	return a.txn
}

func (a *applier) node(name NodeName) *Node {
	if a.at != nil && a.at.Name == name {
		return a.at
	}
	if i, known := a.next.nodes.number(name); known {
		return a.edit(i, a.next.nodes.at(i))
	}
	n := a.added[name]
	if n == nil {
		n = &Node{Name: name, NodeRecords: &NodeRecords{}, stamp: a.stamp}
		a.added[name] = n
		a.nodes = append(a.nodes, n)
	}
	a.at = n
	return n
}

// nodeOf is the node of a placement. Where its row was last is where it is now, mostly.
func (a *applier) nodeOf(p *Placement) *Node {
	name := p.node.name
	if a.at != nil && a.at.Name == name {
		return a.at
	}
	if i := int(p.node.at.Load()); i < len(a.next.nodes.nodes.of) {
		if n := a.next.nodes.at(i); n.Name == name {
			return a.edit(i, n)
		}
	}
	if i, known := a.next.nodes.number(name); known {
		p.node.at.Store(int32(i))
	}
	return a.node(name)
}

// edit is the row n of number i, ready to be written to.
func (a *applier) edit(i int, n *Node) *Node {
	if n.stamp != a.stamp {
		fresh := new(Node)
		*fresh = *n
		a.next.nodes.set(i, fresh, a.stamp)
		fresh.stamp, fresh.recharge = a.stamp, false
		a.nodes = append(a.nodes, fresh)
		n = fresh
	}
	a.at = n
	return n
}

func (a *applier) job(name JobName) *Job {
	if a.last != nil && a.last.Name == name {
		return a.last
	}
	a.settle()
	j := a.next.jobs.get(name)
	if j != nil && j.stamp == a.stamp {
		a.last = j
		return j
	}
	fresh := &Job{Name: name}
	if j != nil {
		*fresh = *j
		fresh.Tasks = slices.Clone(j.Tasks)
	}
	fresh.stamp = a.stamp
	a.next.jobs.set(fresh, a.stamp)
	a.jobs = append(a.jobs, fresh)
	a.last = fresh
	return fresh
}

func (a *applier) scheduler(name string) *Scheduler {
	fresh := &Scheduler{Name: name}
	if raw, err := a.rest().First("schedulers", "id", name); err != nil {
		a.err = err
	} else if raw != nil {
		*fresh = *raw.(*Scheduler)
		fresh.Instances = slices.Clone(fresh.Instances)
	}
	return fresh
}

func (a *applier) putScheduler(s *Scheduler) {
	a.put("schedulers", s, s.Record == nil && len(s.Instances) == 0)
}

// records are the node's own records, for one of them to be replaced.
func (a *applier) records(name NodeName) *NodeRecords {
	n := a.node(name)
	copied := *n.NodeRecords
	n.NodeRecords = &copied
	return n.NodeRecords
}

// charge adds a placement to what the node is charged with, or takes it off.
func (n *Node) charge(p *Placement, times int64) {
	evicts := p.GetEvictedBy() != "" || len(p.GetVictims()) > 0
	if evicts {
		n.evictions += int32(times)
	}
	if evicts || n.evictions > 0 || len(p.GetGpus())+len(p.GetPorts()) > 0 {
		n.recharge = true
	}
	r := p.GetResources()
	n.used.CPUMilli += times * r.GetCpuMilli()
	n.used.MemoryBytes += times * r.GetMemoryBytes()
	n.used.DiskBytes += times * r.GetDiskBytes()
}

func value[T proto.Message](c *Change) T {
	v, _ := c.Value.(T) // nil when the record was deleted
	return v
}

func (a *applier) change(c *Change) {
	switch c.kind {
	case KindPlacement:
		a.placement(c.slot, c)
		return
	case KindStatus, KindEnded:
		a.report(c.kind, c.slot, c.attempt, c)
		return
	}
	k := c.Key.Parse()
	room := func() { a.next.roomRevision = max(a.next.roomRevision, c.Revision) }
	rev := c.Revision
	if c.Deleted {
		rev = 0
	}
	switch k.Kind {
	case KindJob:
		j := a.job(k.Job)
		next := value[*ohmv1.Job](c)
		a.ruleChange(k.Job, j.Record.GetSpec(), next.GetSpec())
		if f := a.sharing(); f != nil {
			f.work(j.Record, -1)
			f.work(next, 1)
		}
		j.Record, j.Revision = next, rev
		for _, t := range j.Tasks { // what a node's agent is told depends on the job, too
			if t.Placement != nil {
				a.nodeOf(t.Placement)
			}
		}
	case KindPlacement:
		a.placement(k.Slot, c)
	case KindStatus, KindEnded:
		a.report(k.Kind, k.Slot, k.Attempt, c)
	case KindWaiting:
		j := a.job(k.Job)
		j.Waiting, j.WaitingRevision = value[*ohmv1.Waiting](c), rev
	case KindRollout:
		j := a.job(k.Job)
		j.Rollout, j.RolloutRevision = value[*ohmv1.Rollout](c), rev
	case KindSchedule:
		j := a.job(k.Job)
		j.Schedule, j.ScheduleRevision = value[*ohmv1.Schedule](c), rev
	case KindRun:
		j := a.job(k.Job)
		j.Runs = slices.DeleteFunc(slices.Clone(j.Runs), func(r *Run) bool { return r.Number == k.Run })
		if r := value[*ohmv1.Run](c); r != nil {
			j.Runs = append(j.Runs, &Run{Run: r, Number: k.Run, Revision: rev})
			slices.SortFunc(j.Runs, func(x, y *Run) int { return cmp.Compare(x.Number, y.Number) })
		}
	case KindNode:
		n := a.records(k.Node)
		if f := a.sharing(); f != nil {
			f.node(n.Facts, -1)
			f.node(value[*ohmv1.Node](c), 1)
		}
		n.Facts, n.FactsRevision = value[*ohmv1.Node](c), rev
		room()
	case KindIntent:
		n := a.records(k.Node)
		n.Intent, n.IntentRevision = value[*ohmv1.Intent](c), rev
		room()
	case KindAlive:
		n := a.records(k.Node)
		n.Alive, n.AliveRevision = value[*ohmv1.Alive](c), rev
		room()
	case KindHold:
		n := a.records(k.Node)
		n.Holds = slices.DeleteFunc(slices.Clone(n.Holds), func(h *Hold) bool { return h.GetTxn() == k.ID })
		if h := value[*ohmv1.Hold](c); h != nil {
			n.Holds = append(n.Holds, &Hold{Hold: h, Revision: rev})
			slices.SortFunc(n.Holds, func(x, y *Hold) int { return strings.Compare(x.GetTxn(), y.GetTxn()) })
		}
		room()
	case KindScheduler:
		s := a.scheduler(k.Name)
		s.Record, s.Revision = value[*ohmv1.Scheduler](c), rev
		a.putScheduler(s)
	case KindInstance:
		s := a.scheduler(k.Name)
		s.Instances = slices.DeleteFunc(s.Instances, func(i Instance) bool { return i.GetInstance() == k.ID })
		if i := value[*ohmv1.SchedulerInstance](c); i != nil {
			s.Instances = append(s.Instances, Instance{SchedulerInstance: i, Revision: rev})
			slices.SortFunc(s.Instances, func(x, y Instance) int { return strings.Compare(x.GetInstance(), y.GetInstance()) })
		}
		a.putScheduler(s)
	case KindConflict:
		a.put("conflicts", &conflictRow{id: k.Name + "/" + k.ID, record: value[*ohmv1.Conflict](c), revision: rev}, c.Deleted)
	case KindAsk:
		a.put("asks", &askRow{id: k.Name + "/" + k.ID, record: value[*ohmv1.Ask](c), revision: rev}, c.Deleted)
	case KindExec:
		a.put("execs", &execRow{id: k.ID, record: value[*ohmv1.ExecRecord](c), revision: rev}, c.Deleted)
	case KindQuota, KindShare:
		a.quotaChange(k, c, rev)
	case KindMeta:
		m := &metaRow{name: k.Name, record: value[*ohmv1.Meta](c), revision: rev}
		a.put("meta", m, c.Deleted)
		if k.Name == "incarnation" {
			a.next.incarnation = m.record.GetValue()
		}
		if f := a.sharing(); f != nil && k.Name == AveragesMeta {
			f.averages(m.record)
		}
	}
}

func (a *applier) put(table string, row any, gone bool) {
	var err error
	if gone {
		if err = a.rest().Delete(table, row); err == memdb.ErrNotFound {
			err = nil
		}
	} else {
		err = a.rest().Insert(table, row)
	}
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("snapshot table %s: %w", table, err)
	}
}

func (a *applier) finish(at Revision) (*Snapshot, error) {
	gone := false
	for _, n := range a.nodes {
		if n.recharge {
			n.used = *charge(n.placed.all())
		}
		gone = gone || n.empty()
	}
	if len(a.added) > 0 || gone {
		var rows []*Node
		for n := range a.next.nodes.all() {
			if !n.empty() {
				rows = append(rows, n)
			}
		}
		for _, n := range a.added {
			if !n.empty() {
				rows = append(rows, n)
			}
		}
		a.next.nodes = newNodeTable(rows, a.stamp)
	}
	a.settle()
	for _, j := range a.loose {
		j.Tasks = slices.DeleteFunc(j.Tasks, (*Task).empty)
	}
	for _, j := range a.jobs {
		if j.Record == nil && j.Waiting == nil && j.Rollout == nil && len(j.Runs) == 0 && j.Schedule == nil && len(j.Tasks) == 0 {
			a.next.jobs.remove(j.Name, a.stamp)
		}
	}
	a.finishQuotas()
	if a.err != nil {
		return nil, a.err
	}
	if a.txn != nil {
		a.txn.Commit()
	}
	a.next.log = a.next.log.with(a.jobs)
	a.next.revision = max(a.next.revision, at)
	return a.next, nil
}
