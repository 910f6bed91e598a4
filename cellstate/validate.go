package cellstate

import (
	"fmt"

	"github.com/ohmcell/ohm/pkg/ability"
	"github.com/ohmcell/ohm/pkg/constraint"
	"github.com/ohmcell/ohm/pkg/resource"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Validate judges a transaction on a snapshot: which claims fit (indexes, ascending)
// and what is wrong with the others. Claims are judged in order, each with those before
// it in place. An atomic transaction of which one claim does not fit has no fit.
//
// It is the only fit rule in the product: schedulers, the commit, dry runs and the
// simulator all call it with the same kind of input; the agent's admission calls its
// node part, Admit.
//
// Quotas are judged by the share of the transaction's instance. Without one, as a policy
// proposes it, they are left out: the Runner hands to a policy only what is covered.
func Validate(s *Snapshot, txn *Txn) (fit []int, conflicts []Conflict) {
	accepted, conflicts := newValidator(s, len(txn.Claims)).judge(txn, nil)
	for _, a := range accepted {
		fit = append(fit, a.claim)
	}
	return fit, conflicts
}

// Admit judges a transaction by one node's row alone: capacity, devices, ports, holds
// and evictions, not jobs and slots.
func Admit(n *Node, txn *Txn) (fit []int, conflicts []Conflict) {
	v := &validator{nodes: map[NodeName]*room{n.Name: newRoom(n)}}
	for i := range txn.Claims {
		if c, _ := v.judgeNode(txn, i); c != nil {
			conflicts = append(conflicts, *c)
		} else {
			fit = append(fit, i)
		}
	}
	return fit, conflicts
}

// Matches says whether a node satisfies all of a group's constraints; where not, which
// one fails.
func Matches(n *Node, constraints []*ohmv1.Constraint) (failed *ohmv1.Constraint, ok bool) {
	for _, c := range constraints {
		if v, has := n.Label(c.GetKey()); !constraint.Holds(c, v, has) {
			return c, false
		}
	}
	return nil, true
}

// Lacks is what a node cannot do of what the tasks of a group need.
func Lacks(n *Node, g *ohmv1.Group) ability.Set {
	return ability.OfGroup(g).Without(ability.Of(n.Facts.GetCapabilities()))
}

// validator judges transactions one after the other, each on top of the claims that
// were accepted before.
type validator struct {
	snapshot *Snapshot // nil in Admit
	nodes    map[NodeName]*room
	slots    map[Slot]bool // claimed by accepted claims
	job      *Job          // looked up last: claims of one job follow each other
	holds    bool          // it is not claims that are judged, but holds of them
	commits  bool          // it is no what-if: somebody must pay
	money    map[Account]*purse
	beyond   map[string]Amounts // what namespaces hold beyond the snapshot, while they share by weights
	ruled    ruled
	parallel map[JobName]int    // accepted on top of what is live, of jobs that limit that
	budgets  map[string]*Budget // looked at already, by scope, with what was accepted on top
}

func newValidator(s *Snapshot, claims int) *validator {
	return &validator{snapshot: s, nodes: make(map[NodeName]*room, claims), slots: make(map[Slot]bool, claims)}
}

// accepted is a claim that fits, and what it does to the placements that give way.
type accepted struct {
	claim    int
	eviction *eviction
	kept
}

// judge judges the claims of txn for which skip, if given, is false. What it accepts
// stays in place for the next transaction.
func (v *validator) judge(txn *Txn, skip func(int) bool) (fit []accepted, conflicts []Conflict) {
	var before map[*room]room // to go back to
	if txn.Mode == Atomic {
		before = map[*room]room{}
	}
	for i := range txn.Claims {
		if skip != nil && skip(i) {
			continue
		}
		c := v.judgeJob(txn, i)
		if c == nil {
			c = v.judgeQuota(txn, i)
		}
		if c == nil {
			c = v.judgeParallel(txn, i)
		}
		var e *eviction
		var k kept
		if c == nil {
			k, c = v.judgeRules(txn, i)
		}
		if c == nil {
			if r := v.room(txn.Claims[i].Node); r != nil && before != nil {
				if _, known := before[r]; !known {
					before[r] = *r
				}
			}
			c, e = v.judgeNode(txn, i)
			k.scopes = append(k.scopes, v.reclaimed(&txn.Claims[i])...)
		}
		if c != nil {
			c.Revision = v.snapshot.Revision()
			conflicts = append(conflicts, *c)
			continue
		}
		v.slots[txn.Claims[i].Slot] = true
		v.pay(txn, &txn.Claims[i], 1)
		v.keep(&txn.Claims[i], 1)
		k.scopes = append(append(k.scopes, v.budgetScopes(&txn.Claims[i])...), v.parallelScopes(&txn.Claims[i])...)
		v.crowd(&txn.Claims[i], 1)
		v.hold(&txn.Claims[i], e, 1)
		fit = append(fit, accepted{i, e, k})
	}
	if txn.Mode == Atomic && v.commits && len(conflicts) == 0 {
		if c := v.judgeGang(txn, fit); c != nil {
			conflicts = append(conflicts, *c)
		}
	}
	if txn.Mode == Atomic && len(conflicts) > 0 {
		for r, was := range before {
			*r = was
		}
		for _, a := range fit {
			delete(v.slots, txn.Claims[a.claim].Slot)
			v.pay(txn, &txn.Claims[a.claim], -1)
			v.keep(&txn.Claims[a.claim], -1)
			v.crowd(&txn.Claims[a.claim], -1)
			if a.eviction != nil {
				v.unspend(a.eviction.marked)
			}
			v.hold(&txn.Claims[a.claim], a.eviction, -1)
		}
		return nil, conflicts
	}
	return fit, conflicts
}

// judgeJob judges a claim by its job and slot.
func (v *validator) judgeJob(txn *Txn, i int) *Conflict {
	c := &txn.Claims[i]
	refuse := func(r Reason, dimension, wanted, free string) *Conflict {
		return &Conflict{Claim: i, Reason: r, Dimension: dimension, Wanted: wanted, Free: free}
	}
	if c.Attempt < 1 || c.Slot.Index < 0 {
		return refuse(ReasonMalformed, "attempt", fmt.Sprint(c.Attempt), "")
	}
	if v.slots[c.Slot] {
		return refuse(ReasonMalformed, "slot", c.Slot.String(), "")
	}
	job := v.jobOf(c.Slot)
	switch {
	case job == nil || job.Record == nil:
		return refuse(ReasonJobGone, "", "", "")
	case !job.Live():
		return refuse(ReasonJobStopped, "", "", "")
	case job.Waits():
		return refuse(ReasonJobWaits, "", "", "")
	case !job.Current(c.Slot) || job.Revision != c.JobRevision:
		return refuse(ReasonJobChanged, "revision", fmt.Sprint(c.JobRevision), fmt.Sprint(job.Revision))
	case job.Record.GetSpec().GetScheduler() != txn.Scheduler:
		return refuse(ReasonScheduler, "", job.Record.GetSpec().GetScheduler(), "")
	case int(job.Record.GetSpec().GetPrecedence()) != c.Precedence:
		return refuse(ReasonPrecedence, "", fmt.Sprint(c.Precedence), fmt.Sprint(job.Record.GetSpec().GetPrecedence()))
	}
	group := job.Group(c.Slot.Group)
	if group == nil || (c.Slot.Index >= int(group.GetCount()) && job.Record.GetSpec().GetKind() != "system") {
		return refuse(ReasonMalformed, "slot", c.Slot.String(), "")
	}
	if t := job.Task(c.Slot); t != nil {
		if t.Placement != nil {
			lost := refuse(ReasonSlotTaken, "", "", "")
			if t.Placement.Revision > txn.Snapshot {
				lost.Winner = t.Placement
			}
			return lost
		}
		if t.Attempts() >= c.Attempt {
			return refuse(ReasonSlotTaken, "attempt", fmt.Sprint(c.Attempt), fmt.Sprint(t.Attempts()+1))
		}
	}
	n := v.snapshot.Node(c.Node)
	if n == nil || n.Facts == nil {
		return refuse(ReasonNodeGone, "", "", "")
	}
	if n.Intent.GetIneligible() || n.Intent.GetDrain() {
		return refuse(ReasonIneligible, "", "", "")
	}
	if n.Facts.GetDiskFull() != "" {
		return refuse(ReasonDiskFull, "", "", "")
	}
	if failed, ok := Matches(n, group.GetConstraints()); !ok {
		return refuse(ReasonConstraint, failed.GetKey(), "", "")
	}
	if lacks := Lacks(n, group); lacks != 0 {
		return refuse(ReasonCannot, lacks.String(), "", "")
	}
	if wrong := judgePorts(n.Facts, group.GetPorts(), c); wrong != nil {
		wrong.Claim = i
		return wrong
	}
	if wrong := judgeDevices(n, group.GetGpus(), c); wrong != nil {
		wrong.Claim = i
		return wrong
	}
	return nil
}

// jobOf is the row of a slot's job.
func (v *validator) jobOf(s Slot) *Job {
	if v.job == nil || v.job.Name != s.JobName() {
		v.job = v.snapshot.Job(s.JobName())
	}
	return v.job
}

func (v *validator) room(name NodeName) *room {
	if r := v.nodes[name]; r != nil {
		return r
	}
	if v.snapshot == nil {
		return nil
	}
	n := v.snapshot.Node(name)
	if n == nil || n.Facts == nil {
		return nil
	}
	r := newRoom(n)
	r.holds = v.holds
	v.nodes[name] = r
	return r
}

// judgeNode judges a claim by its node and, if it fits, takes its room.
func (v *validator) judgeNode(txn *Txn, i int) (*Conflict, *eviction) {
	c := &txn.Claims[i]
	r := v.room(c.Node)
	if r == nil {
		return &Conflict{Claim: i, Reason: ReasonNodeGone}, nil
	}
	if bad := malformed(r.node, c); bad != "" {
		return &Conflict{Claim: i, Reason: ReasonMalformed, Dimension: bad}, nil
	}
	e, refused := r.evict(txn, c, v.started)
	if refused != nil {
		refused.Claim = i
		return refused, nil
	}
	if refused := v.judgeReclaim(txn, i, e); refused != nil {
		return refused, nil
	}
	if spent := v.judgeBudgets(txn, e); spent != nil {
		spent.Claim = i
		return spent, nil
	}
	if short := r.take(txn, c, e); short != nil {
		if e != nil {
			v.unspend(e.marked)
		}
		short.Claim = i
		return short, nil
	}
	return nil, e
}

// started says whether the agent has begun with a placement.
func (v *validator) started(p *Placement) bool { return v.snapshot == nil || v.snapshot.started(p) }

func (s *Snapshot) started(p *Placement) bool {
	return s.Job(p.Slot.JobName()).Task(p.Slot).Status.GetState() > task.Assigned
}

// malformed names what no node could grant, whatever else stands on it.
func malformed(n *Node, c *Claim) string {
	r := c.Resources
	// The upper bounds keep sums far from overflow.
	within := func(amount, most int64) bool { return 0 <= amount && amount <= most }
	if !within(r.GetCpuMilli(), resource.MaxCPU) || !within(r.GetMemoryBytes(), resource.MaxBytes) || !within(r.GetDiskBytes(), resource.MaxBytes) {
		return "resources"
	}
	seen := map[string]bool{}
	for _, g := range c.GPUs {
		if n.device(g.GetId()) == nil || seen[g.GetId()] || g.GetMilli() < 1 || g.GetMilli() > 1000 {
			return "gpu " + g.GetId()
		}
		seen[g.GetId()] = true
	}
	ports := map[int32]bool{}
	for _, p := range c.Ports {
		if p.GetNumber() < 1 || p.GetNumber() > maxPort || ports[p.GetNumber()] {
			return fmt.Sprintf("port %d", p.GetNumber())
		}
		ports[p.GetNumber()] = true
	}
	return ""
}
