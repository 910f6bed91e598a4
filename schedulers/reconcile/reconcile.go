// Package reconcile decides, from what is stored of a job and the time, what should
// become of its slots: which need a node now, which wait, which are over, which tasks
// should stop and why. It is pure and the same under every scheduler, a customer's own
// included: a policy only chooses where.
//
// By kind of job:
//
//	batch    each slot runs to success. A failed attempt spends the slot's retries; what
//	         the cell did to it (node lost, drained, preempted, stopped) does not. A slot
//	         that has none left has failed; its siblings run on to their end.
//	ml       as batch, but a gang: its slots need nodes together or not at all, and when
//	         one has failed for good the others are stopped. A member that is lost with
//	         budget left is replaced alone; the others run on, unless they are fewer than
//	         the gang must have for too long: then they are stopped, and it starts anew.
//	service  count tasks are kept running, whatever ends.
//	system   one task for each live, eligible node that the constraints allow.
//
// Tasks of an older version of a job are stopped, and a slot of the present version
// waits for its predecessor's exit: the two never overlap. Those of a service are stopped
// step by step (Advance), and overlap as far as the job lets them. Where the predecessor is on a node
// that nothing is heard of, it waits until that has been given up.
package reconcile

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The states of a job.
const (
	Pending   = "Pending" // nothing of it runs
	Running   = "Running"
	Stopping  = "Stopping" // nothing will start again, but tasks are still there
	Succeeded = "Succeeded"
	Failed    = "Failed"
	Stopped   = "Stopped"
	Skipped   = "Skipped" // what it was to follow did not end so that it may begin
)

// The kinds of jobs.
const (
	kindBatch  = "batch"
	kindML     = "ml"
	kindSystem = "system"

	kindService = "service"
)

// Need is a slot that needs a node now.
type Need struct {
	Slot    cellstate.Slot
	Attempt int // the number that its next attempt must have
	Group   *ohmv1.Group
	Node    cellstate.NodeName // the only node that will do; empty: anywhere
	// BusyPorts are not to be chosen: the same of all needs of a job.
	BusyPorts []BusyPort
	// Gang says what the needs of a gang find together: the same of all of them; nil: they are no gang's.
	Gang *Gang
}

// Decision is what reconcile says of one job.
type Decision struct {
	Needs []Need // by slot
	// Wake is when more slots will need a node although nothing changes (a backoff
	// ends, a gang times out); zero: never.
	Wake time.Time
	// Done is how the job ended, once nothing will ever start again under its version
	// and nothing is live; the keeper writes it into the job's record.
	Done   *ohmv1.Outcome
	Counts []*ohmv1.GroupCounts // by group, in the order of the job
	State  string               // Pending | Running | Stopping | Succeeded | Failed | Stopped
}

// Job decides on one job with the default limits.
func Job(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) Decision {
	return Defaults().Job(s, j, now)
}

// Job decides on one job.
func (l Limits) Job(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) Decision {
	return l.judge(s, j, now).decision()
}

// Needs is the part of Job that a scheduler asks for at each change of its jobs: what
// stands in the Decision as Needs and Wake.
func (l Limits) Needs(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) (needs []Need, wake time.Time) {
	if d := l.judge(s, j, now); j.Record != nil && j.Record.GetDone() == nil && d.over() == "" {
		return d.needs()
	}
	return nil, time.Time{}
}

// phase is where a slot of the job's present version stands.
type phase int

const (
	ready   phase = iota // needs a node now
	backoff              // will need one later
	blocked              // its older version's task is still there, and about to end
	kept                 // its older version's task is still there, and wanted
	live
	succeeded
	failed // for good
)

// slot is one slot of the job's present version.
type slot struct {
	cellstate.Slot
	group *ohmv1.Group
	task  *cellstate.Task    // nil: nothing is stored of it
	older *cellstate.Task    // of another version, live; nil: none
	node  cellstate.NodeName // of a system job: where it belongs
	phase phase
	until time.Time // in backoff
}

// judged is a job with all its slots looked at.
type judged struct {
	limits    Limits
	snapshot  *cellstate.Snapshot
	job       *cellstate.Job
	spec      *ohmv1.JobSpec
	now       time.Time
	slots     []slot    // by group in the order of the job, then index
	live      int       // placements of all versions
	timedOut  bool      // the gang waited too long
	deadline  time.Time // when time alone changes what becomes of the gang
	ofGang    *Gang
	releasing bool // what is left of the gang is to be stopped
	busy      []BusyPort
	busyTill  time.Time // when the first of them may be tried again
}

func (l Limits) judge(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) *judged {
	d := &judged{limits: l, snapshot: s, job: j, spec: j.Record.GetSpec(), now: now, live: j.Placements()}
	if j.Record == nil || j.Record.GetDone() != nil || !known(d.spec) {
		return d
	}
	d.busy, d.busyTill = l.busyPorts(j, now)
	old := olderLive(j)
	count := 0
	for _, g := range d.spec.GetGroups() {
		count += int(g.GetCount())
	}
	d.slots = make([]slot, 0, count)
	for _, g := range d.spec.GetGroups() {
		if d.spec.GetKind() == kindSystem {
			d.slots = append(d.slots, l.systemSlots(s, j, g, now)...)
			continue
		}
		tasks, wanted := j.TasksOf(g.GetName(), j.VersionOf(g.GetName())), need(j.Record, g.GetName())
		for i := range int(g.GetCount()) {
			at := slot{Slot: slotOf(j, g, i), group: g}
			if len(tasks) > 0 && tasks[0].Slot.Index == i {
				at.task, tasks = tasks[0], tasks[1:]
			}
			switch {
			case at.task != nil && at.task.Placement != nil:
				at.phase = live
			case !wanted(i):
				at.phase = succeeded
			case jobspec.RunsToEnd(d.spec):
				at.phase, at.until = l.untilSuccess(ended(at.task), d.spec, now)
			default:
				at.phase, at.until = l.forEver(ended(at.task), now)
			}
			if at.older = old[place{g.GetName(), i}]; at.older != nil && at.phase == ready {
				at.phase = blocked
				if stays(j, at.older.Slot) {
					at.phase = kept
				}
			}
			d.slots = append(d.slots, at)
		}
		d.surge(d.slots[len(d.slots)-int(g.GetCount()):])
	}
	d.gang()
	return d
}

func slotOf(j *cellstate.Job, g *ohmv1.Group, index int) cellstate.Slot {
	return cellstate.Slot{Namespace: j.Name.Namespace, Job: j.Name.Name, Group: g.GetName(), Index: index, Version: j.VersionOf(g.GetName())}
}

// known says whether this release knows what becomes of tasks of such a kind. A job of another
// one is held: its tasks are left as a later release has them, and none is placed.
func known(spec *ohmv1.JobSpec) bool {
	switch spec.GetKind() {
	case kindBatch, kindService, kindML, kindSystem:
		return true
	}
	return false
}

func ended(t *cellstate.Task) []*cellstate.Ended {
	if t == nil {
		return nil
	}
	return t.Ended
}

// place is where a slot stands in its job, whatever the version.
type place struct {
	group string
	index int
}

// olderLive are tasks of another version that are still there, by place: where there are
// several, the newest.
func olderLive(j *cellstate.Job) map[place]*cellstate.Task {
	var old map[place]*cellstate.Task
	for _, t := range j.Tasks {
		if t.Placement != nil && !j.Current(t.Slot) {
			if old == nil {
				old = map[place]*cellstate.Task{}
			}
			old[place{t.Slot.Group, t.Slot.Index}] = t
		}
	}
	return old
}

func (d *judged) count(p phase) (n int) {
	for _, s := range d.slots {
		if s.phase == p {
			n++
		}
	}
	return n
}

// over is how the job ends, or has ended; empty while something may still start.
func (d *judged) over() string {
	switch {
	case jobspec.RunsToEnd(d.spec) && !d.job.Waits() && d.succeeds(), d.enough():
		return Succeeded
	case d.job.Record.GetStopped():
		return Stopped
	case d.timedOut, d.job.Record.GetTimedOut(), d.spec.GetKind() == kindML && d.count(failed) > 0:
		return Failed
	case d.spec.GetKind() == kindBatch && !d.job.Waits() && d.count(succeeded)+d.count(failed) == len(d.slots):
		return Failed
	}
	return ""
}

// succeeds says whether every slot has done its part, but for the failures that a batch job allows.
func (d *judged) succeeds() bool {
	missing := len(d.slots) - d.count(succeeded)
	return missing == 0 || missing <= int(d.spec.GetAllowedFailures()) && missing == d.count(failed)
}

func (d *judged) decision() Decision {
	record := d.job.Record
	switch {
	case record == nil && d.live > 0:
		return Decision{State: Stopping}
	case record == nil:
		return Decision{State: Stopped}
	case record.GetDone() != nil:
		return Decision{State: record.GetDone().GetState(), Counts: record.GetDone().GetGroups()}
	}
	over := d.over()
	out := Decision{Counts: d.counts(over), State: d.state(over)}
	if over == "" {
		out.Needs, out.Wake = d.needs()
	} else if d.live == 0 {
		out.Done = &ohmv1.Outcome{State: over, Groups: out.Counts, Time: timestamppb.New(d.now)}
	}
	return out
}

// needs are the slots that need a node now, and when there will be more.
func (d *judged) needs() (needs []Need, wake time.Time) {
	if d.job.Waits() {
		return nil, d.deadline
	}
	var last time.Time
	held := false
	for _, s := range d.slots {
		switch s.phase {
		case ready:
			if needs == nil {
				needs = make([]Need, 0, len(d.slots))
			}
			needs = append(needs, Need{Slot: s.Slot, Attempt: s.task.Attempts() + 1, Group: s.group, Node: s.node, BusyPorts: d.busy})
		case backoff:
			wake = earlier(wake, s.until)
			if s.until.After(last) {
				last = s.until
			}
			held = true
		case blocked:
			held = true
		}
	}
	if d.ofGang != nil && held && d.ofGang.Stage != Growing { // all of a gang's needs together
		needs, wake = nil, last
	}
	needs = d.gangNeeds(needs)
	if !d.deadline.IsZero() {
		wake = earlier(wake, d.deadline)
	}
	if len(needs) > 0 {
		wake = earlier(wake, d.busyTill)
	}
	if len(d.spec.GetGroups()) > 1 || d.spec.GetKind() == kindSystem { // else they are in order
		slices.SortFunc(needs, func(a, b Need) int { return a.Slot.Compare(b.Slot) })
	}
	if most := d.job.MaxParallel(); most > 0 {
		needs = needs[:min(len(needs), max(0, most-d.live))]
	}
	return needs, wake
}

// earlier is the earlier of two times of which a zero one means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
