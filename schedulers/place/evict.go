package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Of the candidates that hold something of lower precedence so many are looked at in full for
// one task, those with the lowest first.
const evictTries = 64

// Candidate.lowest is one more than a precedence, or one of these.
const (
	unknown   = 0 // the zero value
	noneLower = math.MaxInt32
)

// Eviction is a node on which a request fits once its victims have given way.
type Eviction struct {
	node    int
	view    Candidate // with the room that it will have
	victims []victim  // that give way for no claim before
	highest int32     // precedence among them
	work    float64   // that is lost: seconds by parts of the node
}

// victim is a placement that may give way.
type victim struct {
	cellstate.Evictable
	size float64 // the part of the node that it uses, all dimensions together
	work float64
}

// rigid says why nothing gave way.
type rigid struct {
	nodes int // with something of lower precedence
	short int // of them: would have no room all the same
	young int // of them: would have room if all had run for long enough
	tired int // of them: or if nothing had been evicted too often
	spent int // of them: or if no disruption budget were used up
	limit bool

	budget *cellstate.Budget // the first that is
}

// plea is what the answer depends on that nothing gives way for a class.
type plea struct {
	round     *Round
	clock     uint64
	below     int
	namespace string
}

// Evict finds the node on which a request that no node has room for costs least: of the
// victims' highest precedences the lowest, then the fewest victims, then the least work
// lost, then the best score. The need may name the node. Who stands on equal footing is a
// victim only with what its namespace has borrowed, so no eviction leads to another one back.
func (r *Round) Evict(q *Request, need reconcile.Need) (*Eviction, bool) {
	r.rigid = rigid{}
	below := r.below(q, need)
	if r.evictions.Now.IsZero() || r.lowest(math.MinInt32, below) == noneLower {
		return nil, false
	}
	if r.evictions.Most <= 0 {
		r.rigid.limit = true
		return nil, false
	}
	by := plea{r, r.t.clock, below, q.of.job.Name.Namespace}
	if k := r.class(q); len(q.rules) == 0 && k.rigidFor == by && need.Node == "" && r.load == nil {
		r.rigid = k.rigid
		return nil, false
	}
	from := int(r.seed % uint64(len(r.t.candidates)))
	var best *Eviction
	bestScore := 0.0
	for tries, level := evictTries, int32(math.MinInt32); tries > 0; {
		level = r.lowest(level, below)
		if level == noneLower {
			break
		}
		for k := range r.t.candidates {
			i := (from + k) % len(r.t.candidates)
			if r.t.candidates[i].lowest != level+1 || (need.Node != "" && r.t.candidates[i].Node.Name != need.Node) || !r.mayEvict(q, i) {
				continue
			}
			if tries--; tries < 0 {
				break
			}
			e := r.evictOn(q, i, below)
			if e == nil {
				continue
			}
			score := r.t.Scorer.Score(q, e.view.without(q)) - price(r.home, i)
			if q.comesLast(&e.view) {
				score -= lastPrice
			}
			if best == nil || cmp.Or(cmp.Compare(e.highest, best.highest), cmp.Compare(len(e.victims), len(best.victims)),
				cmp.Compare(e.work, best.work), cmp.Compare(bestScore, score)) < 0 {
				best, bestScore = e, score
			}
		}
	}
	if best != nil && len(best.victims) > r.evictions.Most {
		r.rigid.limit = true
		best = nil
	}
	if best == nil && need.Node == "" && r.load == nil && len(q.rules) == 0 {
		k := r.class(q)
		k.rigid, k.rigidFor = r.rigid, by
		r.t.read = r.t.clock
	}
	return best, best != nil
}

// mayEvict says whether a candidate may be chosen at all.
func (r *Round) mayEvict(q *Request, i int) bool {
	return !r.t.inFlight[i] && r.keeps(q, i) && !r.t.candidates[i].reservedAgainst(q) && (r.load == nil || r.t.counts[i] <= r.load.last)
}

// lowest is the next precedence above a level, and below one, that is the lowest on some
// candidate.
func (r *Round) lowest(above int32, below int) int32 {
	next := int32(noneLower)
	for i := range r.t.candidates {
		c := &r.t.candidates[i]
		if c.lowest == unknown {
			c.lowest = noneLower
			for _, p := range c.Node.Unsorted() {
				if p.GetEvictedBy() == "" {
					c.lowest = min(c.lowest, p.GetPrecedence()+1)
				}
			}
		}
		if p := c.lowest - 1; c.lowest != noneLower && p > above && int(p) < below {
			next = min(next, p)
		}
	}
	return next
}

// evictOn finds the victims of a request on one candidate; nil if it fits all the same not.
func (r *Round) evictOn(q *Request, node, below int) *Eviction {
	c, g := &r.t.candidates[node], r.giving[node]
	view := g.view(c)
	var able []victim
	barred := [3][]victim{} // too young, evicted too often, of a job whose budget is used up
	bound := map[*cellstate.Budget][]victim{}
	for _, e := range r.t.snapshot.Evictable(c.Node, below) {
		v := r.victim(c, e)
		switch {
		case int(e.GetPrecedence()) == q.Precedence && !r.lends(q, e.Placement):
		case r.evicted[e.Placement], r.t.snapshot.Job(e.Slot.JobName()).Record.GetSpec().GetStartOnce(): // which would be its end
		case r.evictions.Now.Sub(e.GetTime().AsTime()) < r.evictions.MinRun:
			barred[0] = append(barred[0], v)
		case r.evictions.PerTask > 0 && r.preempted(e.Placement) >= r.evictions.PerTask:
			barred[1] = append(barred[1], v)
		case r.spends(e.Placement) != nil:
			b := r.spends(e.Placement)
			bound[b] = append(bound[b], v)
		default:
			able = append(able, v)
			view.give(v.Evictable, 1)
		}
	}
	for _, v := range within(bound) {
		able = append(able, v)
		view.give(v.Evictable, 1)
	}
	for b, rest := range bound {
		barred[2] = append(barred[2], rest[min(b.Left(), len(rest)):]...)
	}
	r.rigid.nodes++
	if !r.t.fits(q, &view) {
		if r.rigid.blame(r.t, q, &view, barred); r.rigid.spent == 1 && r.rigid.budget == nil {
			r.rigid.budget = r.spends(slices.MinFunc(barred[2], func(a, b victim) int { return a.Slot.Compare(b.Slot) }).Placement)
		}
		return nil
	}
	// Two ways to spare what need not go: the small first, which leaves few victims; those
	// of the most work first.
	few := spare(r.t, q, view, able, func(a, b victim) int { return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(b.work, a.work)) })
	cheap := spare(r.t, q, view, able, func(a, b victim) int { return cmp.Compare(b.work, a.work) })
	if cmp.Or(cmp.Compare(cheap.highest, few.highest), cmp.Compare(len(cheap.victims), len(few.victims)), cmp.Compare(cheap.work, few.work)) < 0 {
		few = cheap
	}
	if below > q.Precedence && !r.due(q, few.victims) {
		if few = r.lawful(q, view, able); few == nil {
			r.rigid.short++
			return nil
		}
	}
	few.node = node
	return few
}

// spare takes from those that could give way as many as it can: the most important first, and
// of equals in the given order.
func spare(t *Table, q *Request, view Candidate, able []victim, order func(a, b victim) int) *Eviction {
	e := &Eviction{view: view.copy(), highest: -1}
	able = slices.SortedFunc(slices.Values(able), func(a, b victim) int {
		return cmp.Or(cmp.Compare(b.GetPrecedence(), a.GetPrecedence()), order(a, b), a.Slot.Compare(b.Slot))
	})
	for _, v := range able {
		e.view.give(v.Evictable, -1)
		if t.fits(q, &e.view) {
			continue
		}
		e.view.give(v.Evictable, 1)
		e.victims = append(e.victims, v)
		e.highest, e.work = max(e.highest, v.GetPrecedence()), e.work+v.work
	}
	return e
}

// victim weighs a placement on a candidate.
func (r *Round) victim(c *Candidate, e cellstate.Evictable) victim {
	capacity := c.Node.Facts.GetCapacity()
	size := resource.Part(e.Frees.CPUMilli, capacity.GetCpuMilli()) + resource.Part(e.Frees.MemoryBytes, capacity.GetMemoryBytes()) + resource.Part(e.Frees.DiskBytes, capacity.GetDiskBytes())
	for _, milli := range e.Frees.GPUs {
		size += float64(milli) / float64(wholeGPU*len(c.GPUs))
	}
	return victim{e, size, size * max(0, r.evictions.Now.Sub(e.GetTime().AsTime()).Seconds())}
}

// preempted is how often a slot has been evicted, as far as its attempts are kept.
func (r *Round) preempted(p *cellstate.Placement) (times int) {
	if t := r.t.snapshot.Job(p.Slot.JobName()).Task(p.Slot); t != nil {
		for _, e := range t.Ended {
			if e.GetStatus().GetCause() == task.Preempted {
				times++
			}
		}
	}
	return times
}

// ClaimEvicting claims a node for a slot together with the end of its victims, in the overlay
// too.
func (r *Round) ClaimEvicting(job *cellstate.Job, need reconcile.Need, e *Eviction) cellstate.Claim {
	q := r.Request(job, need.Group)
	claim := e.view.claim(q, job, need)
	before := r.giving[e.node]
	after := before.plus(e, e.view.amounts(q.cost(claim.GPUs, nil)))
	for _, v := range after.victims {
		claim.Victims = append(claim.Victims, &ohmv1.Victim{Slot: v.Slot.Proto(), Attempt: v.GetAttempt(), Txn: v.GetTxn()})
	}
	k := taken{candidate: e.node, job: job, rules: q.rules, before: before, evicts: true, group: need.Group, cost: e.view.cost(after.grown(before))}
	k.cost.ports = claim.Ports
	if r.evicted == nil {
		r.evicted, r.giving = map[*cellstate.Placement]bool{}, map[int]*giving{}
	}
	for _, v := range e.victims {
		k.victims = append(k.victims, v.Placement)
		r.evicted[v.Placement] = true
		if b := r.spends(v.Placement); b != nil {
			b.Down++
		}
	}
	r.giving[e.node] = after
	r.evictions.Most -= len(e.victims)
	r.lay(k)
	return claim
}

// spare undoes what ClaimEvicting has noted of a claim.
func (r *Round) spare(k taken) {
	for _, p := range k.victims {
		delete(r.evicted, p)
		if b := r.spends(p); b != nil {
			b.Down--
		}
	}
	r.evictions.Most += len(k.victims)
	if k.before == nil {
		delete(r.giving, k.candidate)
	} else {
		r.giving[k.candidate] = k.before
	}
}

// plus is what is known of other nodes too.
func (w rigid) plus(o rigid) rigid {
	return rigid{w.nodes + o.nodes, w.short + o.short, w.young + o.young, w.tired + o.tired, w.spent + o.spent, w.limit || o.limit, cmp.Or(w.budget, o.budget)}
}

// noVictims says why nothing gave way, for people and for programs; empty where there is
// nothing to say.
func (r *Round) noVictims(q *Request, why rigid) (text, code string) {
	switch {
	case why.limit:
		return "this scheduler has evicted as many tasks of late as it may", schedulers.NoVictimsLimit
	case why.nodes == 0:
		return "", ""
	case why.young > 0:
		return fmt.Sprintf("on %d of %d nodes with tasks of lower precedence those have not run for %v", why.young, why.nodes, r.evictions.MinRun), schedulers.NoVictimsMinRun
	case why.spent > 0:
		b := why.budget
		return fmt.Sprintf("the disruption budget of job %s is used up: %d of at most %d tasks of its group %s are down; so it is on %d of %d nodes with tasks of lower precedence",
			b.Job.Name, b.Down, b.Most, b.Group, why.spent, why.nodes), schedulers.NoVictimsBudget
	case why.tired > 0:
		return fmt.Sprintf("on %d of %d nodes with tasks of lower precedence those were evicted %d times before", why.tired, why.nodes, r.evictions.PerTask), schedulers.NoVictimsPerTask
	}
	return fmt.Sprintf("even without all tasks of a precedence below %d that may give way none of the %d nodes looked at would do", q.Precedence, why.nodes), schedulers.NoVictimsTooSmall
}

// blame counts a candidate on which a request does not fit, whatever may give way.
func (w *rigid) blame(t *Table, q *Request, view *Candidate, barred [3][]victim) {
	for i, count := range []*int{&w.young, &w.tired, &w.spent} {
		for _, v := range barred[i] {
			view.give(v.Evictable, 1)
		}
		if len(barred[i]) > 0 && t.fits(q, view) {
			*count++
			return
		}
	}
	w.short++
}
