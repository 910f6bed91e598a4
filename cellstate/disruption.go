package cellstate

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Budget is how many tasks of a group may be down at a time for what others want, and how many
// are. It binds evictions and drains: each gives up a task that is up only while that leaves no
// more down than Most. What is down by itself counts, too, but what goes down meanwhile is
// nobody's to see: as the snapshot shows it.
type Budget struct {
	Job   JobName
	Group string
	Most  int
	Down  int
}

// Left is how many tasks that are up may be given up.
func (b Budget) Left() int { return max(0, b.Most-b.Down) }

// Text is what the budget is of, for people.
func (b Budget) Text() string { return fmt.Sprintf("group %s of job %s", b.Group, b.Job.Name) }

// Scope names the fence that whatever gives up a task of the group compares and bumps, in the
// form of Rule.ID: so of two that do so at once the second looks again.
func (b Budget) Scope() string {
	return b.Job.Namespace + "/" + b.Job.Name + "/" + budgetKind + "/" + b.Group
}

const budgetKind = "budget"

// MostDown is how many of a group's tasks may be down by a job's budget; not ok if it has none.
func MostDown(spec *ohmv1.JobSpec, g *ohmv1.Group) (most int, ok bool) {
	d := spec.GetDisruption()
	if d == nil || g == nil {
		return 0, false
	}
	if p := d.GetMaxUnavailablePercent(); p > 0 {
		return int((int64(g.GetCount())*int64(p) + 99) / 100), true
	}
	return int(d.GetMaxUnavailable()), true
}

// rebudgeted says whether a new record of a job changes a budget: what may be down, or of how
// many tasks.
func rebudgeted(was, next *ohmv1.JobSpec) bool {
	if next.GetDisruption() == nil {
		return false
	}
	return !proto.Equal(was.GetDisruption(), next.GetDisruption()) || !slices.EqualFunc(was.GetGroups(), next.GetGroups(),
		func(a, b *ohmv1.Group) bool { return a.GetName() == b.GetName() && a.GetCount() == b.GetCount() })
}

// Budget is that of a live job's group in the version that the group has now; not ok where it
// has none.
func (s *Snapshot) Budget(j *Job, group string) (b Budget, ok bool) {
	if j == nil || !j.Live() {
		return b, false
	}
	most, ok := MostDown(j.Record.GetSpec(), j.Group(group))
	if !ok {
		return b, false
	}
	return s.BudgetOf(j, group, most), true
}

// BudgetOf is a budget for a group of a job by which so many tasks may be down, whatever the
// job says.
func (s *Snapshot) BudgetOf(j *Job, group string, most int) Budget {
	b := Budget{Job: j.Name, Group: group, Most: most}
	g := j.Group(group)
	seen, batch := 0, j.Record.GetSpec().GetKind() == "batch"
	for _, t := range j.TasksOf(group, j.VersionOf(group)) {
		if t.Slot.Index >= int(g.GetCount()) {
			continue
		}
		seen++
		if !up(g, t) && !(batch && excused(t)) {
			b.Down++
		}
	}
	if !batch { // those of which nothing is stored
		b.Down += int(g.GetCount()) - seen
	}
	return b
}

// Bound says whether a placement is one of those that a budget of its job is about.
func (s *Snapshot) Bound(p *Placement) bool {
	j := s.Job(p.Slot.JobName())
	if j == nil || !j.Live() || j.Record.GetSpec().GetDisruption() == nil || !j.Current(p.Slot) {
		return false
	}
	g := j.Group(p.Slot.Group)
	return g != nil && p.Slot.Index < int(g.GetCount())
}

// Up says of a placement that is bound by a budget whether to give it up spends of that.
func (s *Snapshot) Up(p *Placement) bool {
	j := s.Job(p.Slot.JobName())
	return up(j.Group(p.Slot.Group), j.Task(p.Slot))
}

// up says whether a task does its work and is to go on with it.
func up(g *ohmv1.Group, t *Task) bool {
	p := t.Placement
	return p != nil && p.GetEvictedBy() == "" && !p.GetDrained() && t.Status.GetState() == task.Running &&
		t.Status.GetTxn() == p.GetTxn() && (g.GetHealth().GetReady() == nil || t.Status.GetReady())
}

// excused says whether a task of a batch job that is not up is not down either: it has
// succeeded, or not begun yet.
func excused(t *Task) bool {
	if n := len(t.Ended); n > 0 {
		return t.Placement == nil && t.Ended[n-1].GetStatus().GetState() == task.Succeeded
	}
	return t.Placement == nil || t.Placement.GetEvictedBy() == "" && !t.Placement.GetDrained() && t.Status.GetState() < task.Running
}

// budgetOf finds the budget that a placement is bound by; nil if there is none.
func (v *validator) budgetOf(p *Placement) *Budget {
	if v.snapshot == nil {
		return nil
	}
	if !v.snapshot.Bound(p) {
		return nil
	}
	j := v.snapshot.Job(p.Slot.JobName())
	scope := Budget{Job: j.Name, Group: p.Slot.Group}.Scope()
	if b := v.budgets[scope]; b != nil {
		return b
	}
	b, _ := v.snapshot.Budget(j, p.Slot.Group)
	if v.budgets == nil {
		v.budgets = map[string]*Budget{}
	}
	v.budgets[scope] = &b
	return &b
}

// judgeBudgets judges an eviction by the budgets of its victims' jobs, and spends of them if
// it fits: L8.
func (v *validator) judgeBudgets(txn *Txn, e *eviction) *Conflict {
	if e == nil {
		return nil
	}
	for i, p := range e.marked {
		b := v.spentBy(p)
		if b == nil {
			if v.budgetOf(p) != nil {
				e.idle = append(e.idle, p)
			}
			continue
		}
		if b.Down >= b.Most {
			v.unspend(e.marked[:i])
			return &Conflict{Reason: ReasonBudget, Dimension: b.Text(), Wanted: p.Slot.Task(),
				Free: fmt.Sprintf("%d of at most %d down", b.Down, b.Most), Winner: v.spender(txn, b)}
		}
		b.Down++
	}
	return nil
}

// unspend takes back what judgeBudgets has spent.
func (v *validator) unspend(marked []*Placement) {
	for _, p := range marked {
		if b := v.spentBy(p); b != nil {
			b.Down--
		}
	}
}

// spentBy is the budget of which it spends to give up a placement; nil: of none.
func (v *validator) spentBy(p *Placement) *Budget {
	b := v.budgetOf(p)
	if b == nil || !v.snapshot.Up(p) {
		return nil
	}
	return b
}

// spender is the first task of a group that was given up after the snapshot of a transaction.
func (v *validator) spender(txn *Txn, b *Budget) (first *Placement) {
	j := v.snapshot.Job(b.Job)
	for _, t := range j.TasksOf(b.Group, j.VersionOf(b.Group)) {
		p := t.Placement
		if p != nil && p.Revision > txn.Snapshot && (p.GetEvictedBy() != "" || p.GetDrained()) && (first == nil || p.Revision < first.Revision) {
			first = p
		}
	}
	return first
}

// budgetScopes are the scopes of the budgets that a claim's victims are bound by.
func (v *validator) budgetScopes(c *Claim) (scopes []string) {
	for _, victim := range c.Victims {
		slot := SlotOf(victim.GetSlot())
		if t := v.snapshot.Job(slot.JobName()).Task(slot); t != nil && t.Placement != nil {
			if b := v.budgetOf(t.Placement); b != nil {
				scopes = append(scopes, b.Scope())
			}
		}
	}
	return scopes
}

// GiveUp is the write by which placements of one group, which has a budget, are to end for a
// drain. Like an eviction it compares and bumps the group's scope, and that the job is as it was.
func GiveUp(s *Snapshot, b Budget, give []*Placement) Write {
	fence := &ohmv1.ScopeFence{Scope: b.Scope(), Compared: int64(s.scope(b.Scope())), Records: int32(len(give))}
	w := Write{
		Fences: []FenceBump{{Scope: fence.Scope, Compared: Revision(fence.Compared)}},
		Guards: []Guard{{Key: JobKey(b.Job), Revision: s.Job(b.Job).Revision}},
	}
	for _, p := range give {
		if !s.Up(p) {
			w.Guards = append(w.Guards, s.idleGuard(p))
		}
		record := p.drained(fence)
		w.Records = append(w.Records, Record{Key: p.Slot.PlacementKey(), Value: record, Read: p.Revision})
	}
	return w
}

// idleGuard says that a placement which is not up, so that to give it up spends nothing, has
// not come up since.
func (s *Snapshot) idleGuard(p *Placement) Guard {
	return Guard{Key: p.Slot.StatusKey(), Revision: s.Job(p.Slot.JobName()).Task(p.Slot).StatusRevision}
}
