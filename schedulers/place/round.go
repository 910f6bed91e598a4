package place

import (
	"context"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Round is one call of a policy: the table of its snapshot, and over it what the call
// has claimed so far.
type Round struct {
	t        *Table
	home     schedulers.Home
	seed     uint64
	requests map[group]*Request
	busy     map[*cellstate.Job][]reconcile.BusyPort
	taken    []taken
	load     *Load // of the job at work; nil: none

	work      []schedulers.Work              // of the call
	evictions schedulers.Evictions           // what may be evicted still
	giving    map[int]*giving                // by candidate: what gives way for the job at work
	evicted   map[*cellstate.Placement]bool  // in this round
	budgets   map[budgetOf]*cellstate.Budget // with what this round has spent
	holds     map[string]cellstate.Amounts   // what namespaces hold beyond the snapshot, as of the last eviction that was sought
	rigid     rigid                          // why nothing gave way when that was last asked

	decisions []schedulers.Decision // for the log, those of jobs that got no node included

	asked   *Request // the last one of which the class was wanted
	classOf *class
	counts  map[string]*counts // of rules between tasks
	bans    bans               // of the job at work
}

// group is what all tasks of one request have in common.
type group struct {
	job *cellstate.Job
	of  *ohmv1.Group
}

// taken is a claim that stands in the overlay.
type taken struct {
	candidate int
	job       *cellstate.Job
	group     *ohmv1.Group
	cost      cost
	victims   []*cellstate.Placement // that give way for no other claim
	before    *giving                // of the candidate, before the claim; nil: none
	evicts    bool
	rules     []ruling // that concern it
}

// Each lets one place each job of the work, in order, on one round; what one returns is
// the proposal. It fails only when ctx ends. Neither the round nor a load of it is to be
// used later.
func (t *Table) Each(ctx context.Context, in schedulers.Input, one func(*Round, schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced)) (schedulers.Proposal, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.begin(in)
	defer r.end(in)
	var p schedulers.Proposal
	for _, w := range in.Work {
		if err := ctx.Err(); err != nil {
			return schedulers.Proposal{}, err
		}
		txn, unplaced := one(r, w)
		r.unload()
		clear(r.giving) // what one transaction has evicted is no other's
		if txn != nil {
			p.Txns = append(p.Txns, txn)
		}
		p.Unplaced = append(p.Unplaced, unplaced...)
	}
	p.Decisions = r.decisions
	return p, nil
}

// begin starts a round on the input's snapshot.
func (t *Table) begin(in schedulers.Input) *Round {
	t.sort()
	t.follow(in.Snapshot)
	t.bar(in.InFlight)
	t.reservations(in.Now)
	r := &Round{t: t, home: in.Home, seed: in.Seed, requests: map[group]*Request{}, work: in.Work, evictions: in.Evictions, decisions: make([]schedulers.Decision, 0, len(in.Work))}
	for _, w := range in.Work {
		if len(w.Needs) > 0 && len(w.Needs[0].BusyPorts) > 0 {
			if r.busy == nil {
				r.busy = map[*cellstate.Job][]reconcile.BusyPort{}
			}
			r.busy[w.Job] = w.Needs[0].BusyPorts
		}
	}
	r.census(in.Work, 1)
	t.learn()
	return r
}

// end leaves it to the next round to take the overlay away: until then most of the nodes
// in it have new rows.
func (r *Round) end(in schedulers.Input) {
	for _, k := range r.taken {
		r.t.overlaid = append(r.t.overlaid, int32(k.candidate))
	}
	r.unload()
	r.census(in.Work, -1)
}

// census counts what the work asks for; with times -1 no more.
func (r *Round) census(work []schedulers.Work, times int) {
	for _, w := range work {
		for _, n := range w.Needs {
			if n.Group.GetGpus().GetCount() > 0 {
				r.t.census.count(seenRequest(r.Request(w.Job, n.Group)), times)
			}
		}
	}
}

// Request is what a task of the group asks for.
func (r *Round) Request(job *cellstate.Job, g *ohmv1.Group) *Request {
	key := group{job, g}
	q := r.requests[key]
	if q == nil {
		q = NewRequest(job, g, r.busy[job])
		r.t.typical(q)
		r.t.reserve(q, job)
		q.rules, q.round, q.of, q.part, q.turn = r.rulings(job, g), r, key, r.t.partOf(job.Name), turn(r.home)
		r.requests[key] = q
	}
	return q
}

// Choose finds the best node for a request, by its number. With the load of the job at
// work, what that says comes before the score. Equal nodes are told apart by the seed: it
// names a node, and of equal ones the first from there on is taken, in a circle.
func (r *Round) Choose(q *Request, load *Load) (node int, ok bool) {
	if len(r.t.candidates) == 0 {
		return 0, false
	}
	if len(q.rules) > 0 {
		return r.chooseRuled(q, load)
	}
	return r.best(q, load)
}

// best is the best node for a request among those that the load does not mask.
func (r *Round) best(q *Request, load *Load) (node int, ok bool) {
	k := r.class(q)
	node, looked, ok := r.t.choose(k, q.part, r.home, load, r.seed)
	r.trace(q, k, looked)
	return node, ok
}

// class is that of a request.
func (r *Round) class(q *Request) *class {
	if r.asked != q {
		r.asked, r.classOf = q, r.t.class(q)
	}
	return r.classOf
}

// Only is the number of a named node, if the request fits there and no request is under
// way.
func (r *Round) Only(q *Request, name cellstate.NodeName) (node int, ok bool) {
	i, known := r.t.index[name]
	return i, known && !r.t.inFlight[i] && r.t.fits(q, &r.t.candidates[i])
}

// Awaits says whether a need that finds no node would find one among those with requests
// under way: then it is neither placed nor explained in this round.
func (r *Round) Awaits(q *Request, need reconcile.Need) bool {
	t := r.t
	return slices.ContainsFunc(t.barred, func(i int32) bool {
		c := &t.candidates[i]
		return (need.Node == "" || need.Node == c.Node.Name) && (r.load == nil || t.counts[i] <= r.load.last) && t.fits(q, c)
	})
}

// Claim claims a node that fits for a slot, in the overlay too.
func (r *Round) Claim(job *cellstate.Job, need reconcile.Need, node int) cellstate.Claim {
	claim := r.t.candidates[node].claim(r.Request(job, need.Group), job, need)
	r.claimed(job, need, node, claim)
	return claim
}

func (r *Round) claimed(job *cellstate.Job, need reconcile.Need, node int, claim cellstate.Claim) {
	q := r.Request(job, need.Group)
	r.lay(taken{candidate: node, job: job, group: need.Group, rules: q.rules, cost: q.cost(claim.GPUs, claim.Ports)})
}

// claim is a claim of c for a slot: c has room for it.
func (c *Candidate) claim(q *Request, job *cellstate.Job, need reconcile.Need) cellstate.Claim {
	free := c.without(q)
	var ports []*ohmv1.Port
	if len(q.Ports) > 0 {
		ports, _ = free.choosePorts(q, cellstate.PortsFrom(need.Slot, need.Attempt))
	}
	return cellstate.Claim{
		Slot: need.Slot, Attempt: need.Attempt, Node: c.Node.Name,
		Resources: need.Group.GetResources(), GPUs: shares(q, free), Ports: ports,
		Precedence: q.Precedence, JobRevision: job.Revision,
	}
}

func (r *Round) lay(k taken) {
	r.take(k, 1)
	r.taken = append(r.taken, k)
}

// take lays a claim over the snapshot, or gives it back (times -1).
func (r *Round) take(k taken, times int) {
	r.t.candidates[k.candidate].take(k.cost, times)
	if r.load != nil && r.load.job == k.job {
		r.load.count(k.candidate, int32(times))
	}
	for i := range k.rules {
		k.rules[i].count(k.rules[i].Concern, k.candidate, int32(times))
	}
	r.mask(k.candidate)
	r.t.touch(k.candidate)
}

// Mark is the overlay as it stands now, for Undo.
func (r *Round) Mark() int { return len(r.taken) }

// Undo gives back what was claimed since the mark.
func (r *Round) Undo(mark int) {
	for _, k := range slices.Backward(r.taken[mark:]) {
		r.take(k, -1)
		if k.evicts {
			r.spare(k)
		}
	}
	r.taken = r.taken[:mark]
	r.t.returns++
}
