package cellstate

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/hashicorp/go-memdb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Snapshot is an immutable view of the whole cell at one revision. It and all that
// it hands out may be read by anybody and written by nobody.
type Snapshot struct {
	revision     Revision
	roomRevision Revision
	incarnation  string
	stamp        uint64    // of the batch that made it
	nodes        nodeTable // the placement path: persistent tables
	jobs         jobTable
	log          *changeLog
	db           *memdb.MemDB // all other rows; never written to once published

	rules         int // rows of rules
	nears         int // of them, those to be together
	quotas        int // rows of quotas
	quotaRevision Revision
	unseen        Spending // on top of what is seen: see Beside
	fair          *Fair    // nil: no namespace has a weight
}

// Hold is a row of a node: room kept for a transaction that keeps losing.
type Hold struct {
	*ohmv1.Hold
	Revision Revision
}

// Node is the row of one node: everything that a placement on it depends on.
type Node struct {
	Name         NodeName
	*NodeRecords          // never nil in a snapshot
	Fence        Revision // what is known of the node's fence

	placed    placed
	count     int32 // placements
	evictions int32 // of them, those that evict or are evicted
	used      Usage
	stamp     uint64
	recharge  bool // while a batch is at work: used is to be worked out anew
}

// NodeRecords are a node's own records, which change rarely: the rows of a node share
// them until they do.
type NodeRecords struct {
	Facts          *ohmv1.Node // nil: the agent has never been seen
	FactsRevision  Revision
	Intent         *ohmv1.Intent // nil: no wishes
	IntentRevision Revision
	Alive          *ohmv1.Alive // nil: no session now
	AliveRevision  Revision
	Holds          []*Hold // by transaction
}

// Placements are the live placements on the node, by slot. It makes a list and sorts it:
// not for a hot path.
func (n *Node) Placements() []*Placement {
	list := slices.Clone(n.placed.all())
	slices.SortFunc(list, func(a, b *Placement) int { return a.Slot.compare(&b.Slot) })
	return list
}

// Unsorted are the live placements on the node, in no order. Read only.
func (n *Node) Unsorted() []*Placement { return n.placed.all() }

// Count is the number of placements on the node.
func (n *Node) Count() int { return int(n.count) }

// Used is what the node is charged with (L5), holds left out. Read only.
func (n *Node) Used() *Usage { return &n.used }

// empty says that nothing is known of the node. A fence is never deleted, so a node that
// goes keeps a row that knows it.
func (n *Node) empty() bool {
	return n.Facts == nil && n.Intent == nil && n.Alive == nil && n.Fence == 0 && n.count == 0 && len(n.Holds) == 0
}

// Label is the value of a label or, where there is no such label, of an attribute.
func (n *Node) Label(key string) (string, bool) {
	if v, ok := n.Intent.GetLabels()[key]; ok {
		return v, true
	}
	if key == "node" {
		return string(n.Name), true
	}
	v, ok := n.Facts.GetAttributes()[key]
	return v, ok
}

// Ended is a finished attempt.
type Ended struct {
	*ohmv1.Ended
	Attempt  int
	Revision Revision
}

// Task is what is stored of one slot.
type Task struct {
	Slot           Slot
	Placement      *Placement    // nil: none is live
	Status         *ohmv1.Status // of the live attempt; nil: the agent has not spoken yet
	StatusRevision Revision
	Ended          []*Ended // by attempt

	stamp uint64
}

// empty says that nothing is stored of the slot.
func (t *Task) empty() bool { return t.Placement == nil && t.Status == nil && len(t.Ended) == 0 }

// Attempts is the highest attempt number that was used, live or ended; 0: none.
func (t *Task) Attempts() int {
	if t == nil {
		return 0
	}
	n := 0
	if len(t.Ended) > 0 {
		n = t.Ended[len(t.Ended)-1].Attempt
	}
	if t.Placement != nil {
		n = max(n, int(t.Placement.GetAttempt()))
	}
	return n
}

// Job is the row of one job: its record and everything stored of its tasks, older
// versions' included.
type Job struct {
	Name            JobName
	Record          *ohmv1.Job // nil: removed, or tasks without a job
	Revision        Revision
	Tasks           []*Task // by slot
	Waiting         *ohmv1.Waiting
	WaitingRevision Revision
	Rollout         *ohmv1.Rollout // of a service; nil: its tasks are of its first version
	RolloutRevision Revision
	Runs            []*Run          // by number: those that are over, and those that wait
	Schedule        *ohmv1.Schedule // nil: no run of it begins by itself

	ScheduleRevision Revision

	stamp uint64
}

// Run is a run of a job that its record is not of.
type Run struct {
	*ohmv1.Run
	Number   int64
	Revision Revision
}

// Waits says whether the run has not begun.
func (r *Run) Waits() bool { return r.GetJob().GetDone() == nil }

// Run is one of those of the job that its record is not of; nil if it is not there.
func (j *Job) Run(number int64) *Run {
	i, ok := slices.BinarySearchFunc(j.Runs, number, func(r *Run, n int64) int { return cmp.Compare(r.Number, n) })
	if !ok {
		return nil
	}
	return j.Runs[i]
}

// WaitingRuns are the runs that wait for their turn, the next one first.
func (j *Job) WaitingRuns() []*Run {
	i := len(j.Runs)
	for i > 0 && j.Runs[i-1].Waits() {
		i--
	}
	return j.Runs[i:]
}

// Task is the row of a slot; nil if nothing is stored of it, or of the job.
func (j *Job) Task(s Slot) *Task {
	if j == nil {
		return nil
	}
	if i, ok := j.find(s); ok && j.Name == s.JobName() {
		return j.Tasks[i]
	}
	return nil
}

// TasksOf are the rows of one group's tasks of one version, by index.
func (j *Job) TasksOf(group string, version int64) []*Task {
	from, _ := j.find(Slot{Group: group, Version: version})
	to, _ := j.find(Slot{Group: group, Version: version, Index: math.MaxInt})
	return j.Tasks[from:to]
}

// find is where the slot, one of the job's, stands among its tasks, or would.
func (j *Job) find(s Slot) (int, bool) {
	if i := s.Index; i >= 0 && i < len(j.Tasks) && j.Tasks[i].Slot == s { // of one group, all there
		return i, true
	}
	if n := len(j.Tasks); n == 0 || j.Tasks[n-1].Slot.compareWithin(&s) < 0 {
		return n, false
	}
	return sort.Find(len(j.Tasks), func(i int) int { return s.compareWithin(&j.Tasks[i].Slot) })
}

// Group is the job's group of that name; nil if there is none.
func (j *Job) Group(name string) *ohmv1.Group {
	for _, g := range j.Record.GetSpec().GetGroups() {
		if g.GetName() == name {
			return g
		}
	}
	return nil
}

// VersionOf is the version that a group's slots are of: the newest one of the job that
// changed what reaches the processes of the group.
func (j *Job) VersionOf(group string) int64 {
	if v, older := j.Record.GetGroupVersions()[group]; older {
		return v
	}
	return j.Record.GetVersion()
}

// Current says whether a slot is of the version that its group is of now.
func (j *Job) Current(s Slot) bool { return s.Version == j.VersionOf(s.Group) }

// AsOf is the job with the record that a slot's version was of, where that is still known: the
// one that it has, or the one that it may go back to; nil otherwise.
func (j *Job) AsOf(s Slot) *Job {
	if j.Current(s) {
		return j
	}
	good := &Job{Name: j.Name, Record: j.Rollout.GetGood()}
	if good.Record == nil || !good.Current(s) {
		return nil
	}
	return good
}

// Of says whether the job is a scheduler's to place.
func (j *Job) Of(scheduler string) bool {
	return j.Record != nil && j.Record.GetDone() == nil && j.Record.GetSpec().GetScheduler() == scheduler
}

// Live says whether the job may still start tasks.
func (j *Job) Live() bool {
	return j.Record != nil && !j.Record.GetStopped() && j.Record.GetDone() == nil
}

// Waits says whether nothing of the job may start yet, because of other jobs.
func (j *Job) Waits() bool { return len(j.Record.GetAfter()) > 0 && !j.Record.GetReleased() }

// Scheduler is the row of one scheduler.
type Scheduler struct {
	Name      string
	Record    *ohmv1.Scheduler // nil: only instances are known
	Revision  Revision
	Instances []Instance // by name
}

// Instance is a live registration.
type Instance struct {
	*ohmv1.SchedulerInstance
	Revision Revision
}

// Rows of the conflict journal, of questions to schedulers, of programs run in tasks, and of meta.
type conflictRow struct {
	id       string // <scheduler>/<id>
	record   *ohmv1.Conflict
	revision Revision
}

type askRow struct {
	id       string // <scheduler>/<id>
	record   *ohmv1.Ask
	revision Revision
}

type execRow struct {
	id       string
	record   *ohmv1.ExecRecord
	revision Revision
}

type metaRow struct {
	name     string
	record   *ohmv1.Meta
	revision Revision
}

// Revision of the store that this is the view at.
func (s *Snapshot) Revision() Revision { return s.revision }

// RoomRevision is the last revision at which a task that did not fit before may have
// come to fit: a placement or hold went, a node came or changed.
func (s *Snapshot) RoomRevision() Revision { return s.roomRevision }

// Incarnation of the store: another one after a restore.
func (s *Snapshot) Incarnation() string { return s.incarnation }

// Node is the row of a node; nil if nothing is known of it.
func (s *Snapshot) Node(name NodeName) *Node { return s.nodes.get(name) }

// Nodes are the rows of all nodes, by name.
func (s *Snapshot) Nodes() iter.Seq[*Node] { return s.nodes.all() }

// NodeCount is how many there are.
func (s *Snapshot) NodeCount() int { return len(s.nodes.nodes.of) }

// NodeChanges are the rows that differ from those of another snapshot, with their
// numbers in the order of names. Where nodes have come or gone the numbers mean nothing,
// and same is false.
func (s *Snapshot) NodeChanges(since *Snapshot) (changes iter.Seq2[int, *Node], same bool) {
	if since == nil || s.nodes.nodes != since.nodes.nodes {
		return nil, false
	}
	return s.nodes.changes(&since.nodes), true
}

// Job is the row of a job; nil if nothing is stored of it.
func (s *Snapshot) Job(name JobName) *Job { return s.jobs.get(name) }

// Jobs are the rows of all jobs, by namespace and name. It sorts them: not for a hot path.
func (s *Snapshot) Jobs() iter.Seq[*Job] {
	return slices.Values(s.jobs.sorted(func(*Job) bool { return true }))
}

// JobsIn are the rows of a namespace's jobs, by name.
func (s *Snapshot) JobsIn(namespace string) iter.Seq[*Job] {
	return slices.Values(s.jobs.sorted(func(j *Job) bool { return j.Name.Namespace == namespace }))
}

// JobsOf are the rows of the jobs that name a scheduler and are not done, by name.
func (s *Snapshot) JobsOf(scheduler string) iter.Seq[*Job] {
	return slices.Values(s.jobs.sorted(func(j *Job) bool { return j.Of(scheduler) }))
}

// Scheduler is the row of a scheduler; nil if it was never registered.
func (s *Snapshot) Scheduler(name string) *Scheduler {
	return first[Scheduler](s, "schedulers", "id", name)
}

// Schedulers are the rows of all schedulers, by name.
func (s *Snapshot) Schedulers() iter.Seq[*Scheduler] {
	return all[Scheduler](s, "schedulers", "id_prefix", "")
}

// Conflicts are the journal's entries, oldest first within a scheduler; of all
// schedulers if scheduler is empty.
func (s *Snapshot) Conflicts(scheduler string) iter.Seq[*ohmv1.Conflict] {
	if scheduler != "" {
		scheduler += "/"
	}
	return func(yield func(*ohmv1.Conflict) bool) {
		for row := range all[conflictRow](s, "conflicts", "id_prefix", scheduler) {
			if !yield(row.record) {
				return
			}
		}
	}
}

// Asks are the questions to a scheduler that stand there, answered or not, the oldest first.
func (s *Snapshot) Asks(scheduler string) iter.Seq[*ohmv1.Ask] {
	return func(yield func(*ohmv1.Ask) bool) {
		for row := range all[askRow](s, "asks", "id_prefix", scheduler+"/") {
			if !yield(row.record) {
				return
			}
		}
	}
}

// Execs are the programs that were run in tasks, oldest first.
func (s *Snapshot) Execs() iter.Seq[*ohmv1.ExecRecord] {
	return func(yield func(*ohmv1.ExecRecord) bool) {
		for row := range all[execRow](s, "execs", "id_prefix", "") {
			if !yield(row.record) {
				return
			}
		}
	}
}

// Meta is a fact about the store and the revision of its record; nil and 0 if there is none.
func (s *Snapshot) Meta(name string) (*ohmv1.Meta, Revision) {
	if row := first[metaRow](s, "meta", "id", name); row != nil {
		return row.record, row.revision
	}
	return nil, 0
}

func first[T any](s *Snapshot, table, index, key string) *T {
	raw, err := s.db.Txn(false).First(table, index, key)
	if err != nil || raw == nil { // an error is a table or index that the schema lacks: a fault of this file
		return nil
	}
	return raw.(*T)
}

func all[T any](s *Snapshot, table, index, key string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		it, err := s.db.Txn(false).Get(table, index, key)
		if err != nil {
			return
		}
		for raw := it.Next(); raw != nil; raw = it.Next() {
			if !yield(raw.(*T)) {
				return
			}
		}
	}
}
