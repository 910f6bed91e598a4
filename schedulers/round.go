package schedulers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// round has the policy decide on some work, commits what it wants, and notes what
// became of each slot. All of it is decided on one snapshot.
func (r *Runner) round(ctx context.Context, s *cellstate.Snapshot, home Home, work []Work) {
	if work = r.affordable(s, work); len(work) == 0 {
		return
	}
	now := r.Clock()
	nodes := make(map[cellstate.NodeName]bool, len(r.nodes))
	work, yields := r.yielding(work, now, nodes)
	slots := 0
	for _, w := range work {
		slots += len(w.Needs)
	}
	open := make(map[cellstate.Slot]reconcile.Need, slots) // without an answer yet
	for _, w := range work {
		for _, n := range w.Needs {
			open[n.Slot] = n
		}
	}
	for n := range r.nodes {
		nodes[n] = true
	}
	r.queue.shun(work, nodes)
	in := Input{
		Snapshot: s, Work: work, Home: home, Limits: r.Store.Limits(), InFlight: nodes, Evictions: r.mayEvict(), Now: now,
		Seed: hash(r.Name, r.Instance, fmt.Sprint(s.Revision())),
	}
	proposal, err := r.ask(ctx, in, slots)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.Log.Error("the policy failed", zap.Int64("revision", int64(s.Revision())), zap.Error(err))
		proposal = Proposal{}
	}
	r.missed(s, proposal.Unplaced, open)
	r.unplaced(s, proposal.Unplaced, open, len(nodes) > 0, yields)
	txns := r.admit(s, now, proposal.Txns, open)
	for _, n := range open { // the policy said nothing of it: as if it had found no node
		switch {
		case err != nil:
			r.refuse(s, n.Slot, "the scheduler failed: "+err.Error())
		case !yields.IsZero():
			r.queue.jobs[n.Slot.JobName()].leave(n.Slot, yields)
		case len(nodes) > 0: // what is on its way may have been all that stood in its way
			r.queue.deferred(n.Slot)
		default:
			r.refuse(s, n.Slot, "the scheduler gave no reason")
		}
	}
	for _, w := range work {
		r.queue.jobs[w.Job.Name].say()
	}
	if len(txns) > 0 {
		f := &flight{snapshot: s, txns: txns}
		r.decided.note(&decidedRound{at: now, seed: in.Seed, snapshot: s.Revision(), decisions: proposal.Decisions, flight: f})
		r.launch(ctx, f)
	}
}

// ask has the policy decide on so many slots.
func (r *Runner) ask(ctx context.Context, in Input, slots int) (Proposal, error) {
	began := r.Clock()
	proposal, err := r.Scheduler.Schedule(ctx, in)
	busy := r.Clock().Sub(began)
	r.deciding = max(busy, r.deciding*7/8)
	r.stats.add(func(c *Stats) { c.Decisions += int64(slots); c.Busy += busy })
	return proposal, err
}

// unplaced parks the slots that found no node, with the policy's explanation, and takes
// them out of open. Those refused beside nodes that the round was kept off are not refused
// for good.
func (r *Runner) unplaced(s *cellstate.Snapshot, unplaced []Unplaced, open map[cellstate.Slot]reconcile.Need, kept bool, yields time.Time) {
	for _, u := range unplaced {
		hopeless := r.never(s, u, kept)
		reasons := addUp(u.Reasons, s.NodeCount())
		for _, slot := range u.Slots {
			if _, ok := open[slot]; !ok {
				continue
			}
			delete(open, slot)
			if !yields.IsZero() {
				r.queue.jobs[slot.JobName()].leave(slot, yields)
				continue
			}
			if kept {
				r.queue.deferred(slot)
				continue
			}
			r.refuse(s, slot, "")
			e := r.queue.jobs[slot.JobName()]
			if e.waits.IsZero() {
				e.waits = r.Clock()
			}
			if e.refusals == nil {
				e.refusals = map[string]refusal{}
			}
			e.refusals[slot.Group] = refusal{nodes: s.NodeCount(), reasons: reasons, rigid: u.NoVictims, code: u.NoVictimsCode, never: hopeless, since: e.since(slot.Group, r.Clock())}
		}
	}
}

// refuse parks a slot. With a problem the fault is the scheduler's, not the room's.
func (r *Runner) refuse(s *cellstate.Snapshot, slot cellstate.Slot, problem string) {
	e := r.queue.jobs[slot.JobName()]
	if e == nil {
		return // the job went while its claims were on their way
	}
	e.park([]cellstate.Slot{slot}, s.Revision(), r.Clock().Add(r.Times.Sweep))
	e.problem = problem
	if problem != "" {
		delete(e.refusals, slot.Group)
	}
}

// admit fills in who and when, and takes the claimed slots out of open. It drops claims
// that nobody asked for, that are on another node than the need's, and those of slots that
// have lost before which Validate refuses on this very snapshot: a policy that does not see
// what refused it would propose the same for ever (field case 10). An atomic transaction
// is dropped whole.
func (r *Runner) admit(s *cellstate.Snapshot, now time.Time, proposed []*cellstate.Txn, open map[cellstate.Slot]reconcile.Need) []*cellstate.Txn {
	var txns []*cellstate.Txn
	for _, t := range proposed {
		txn := *t
		txn.ID = cellstate.TxnID(r.ids.next(r.Clock()))
		txn.Scheduler, txn.Instance, txn.Snapshot = r.Name, r.Instance, s.Revision()
		txn.Claims = slices.DeleteFunc(slices.Clone(t.Claims), func(c cellstate.Claim) bool {
			why := r.inadmissible(s, now, txn, c, open)
			if why != "" {
				r.Log.Error("a claim of the policy is dropped: "+why, zap.String("task", c.Slot.String()), zap.String("node", string(c.Node)))
			}
			return why != ""
		})
		if len(txn.Claims) == 0 || (txn.Mode == cellstate.Atomic && len(txn.Claims) < len(t.Claims)) {
			continue
		}
		var job *cellstate.Job // of the last claim
		for i := range txn.Claims {
			c := &txn.Claims[i]
			delete(open, c.Slot)
			if job == nil || job.Name != c.Slot.JobName() {
				job = r.queue.jobs[c.Slot.JobName()].job
			}
			c.Ends = ends(job, now)
		}
		txns = append(txns, &txn)
		r.evicts.note(r.Clock(), &txn)
	}
	return txns
}

// inadmissible says why a claim is not even sent; empty if it is.
func (r *Runner) inadmissible(s *cellstate.Snapshot, now time.Time, txn cellstate.Txn, c cellstate.Claim, open map[cellstate.Slot]reconcile.Need) string {
	n, ok := open[c.Slot]
	switch {
	case !ok:
		return "nobody asked for it"
	case n.Node != "" && n.Node != c.Node:
		return "the need is for node " + string(n.Node)
	}
	if _, lost := r.queue.jobs[c.Slot.JobName()].losses[c.Slot]; lost {
		c.Ends = ends(r.queue.jobs[c.Slot.JobName()].job, now)
		txn.Claims = []cellstate.Claim{c}
		if _, conflicts := cellstate.Validate(s, &txn); len(conflicts) > 0 {
			return fmt.Sprintf("it has lost before and does not fit on this snapshot either (%s %s)", conflicts[0].Reason, conflicts[0].Dimension)
		}
	}
	return ""
}

// settle notes what became of a flight. A claim without commit and without conflict
// stays in the queue.
func (r *Runner) settle(ctx context.Context, f *flight) {
	r.queue.flights--
	r.underWay -= f.claims()
	r.queue.landing++
	r.unspend(f.spends)
	for _, t := range f.txns {
		for _, c := range t.Claims {
			r.queue.fly(c.Slot, false)
			if r.nodes[c.Node]--; r.nodes[c.Node] == 0 {
				delete(r.nodes, c.Node)
			}
		}
	}
	for _, res := range f.results {
		r.stats.add(func(c *Stats) { c.Committed += int64(len(res.Committed)) })
		if f.err == nil {
			r.outcome(f, &res, r.Clock())
		}
		for i := range res.Conflicts {
			r.lost(f.snapshot, res.Txn, &res.Conflicts[i])
		}
	}
	switch {
	case f.err == nil:
		r.errorPause = 0
		r.resize(f.took)
	case ctx.Err() != nil:
	case errors.Is(f.err, cellstate.ErrRequestLimit): // the same transactions would meet it again
		r.Log.Error("the policy proposes more than the store can take at once", zap.Error(f.err))
		for _, t := range f.txns {
			for _, c := range t.Claims {
				r.refuse(f.snapshot, c.Slot, "the scheduler proposed more than the store can take at once")
			}
			for _, c := range t.Claims {
				if e := r.queue.jobs[c.Slot.JobName()]; e != nil {
					e.say()
				}
			}
		}
	default:
		r.failed(ctx, "commit", f.err)
	}
	r.decided.landed(f)
}

// lost deals with one conflict: it is counted and kept in the journal, and the slot
// goes back to the queue. It is no attempt, and nothing of it is a failure of the task.
func (r *Runner) lost(s *cellstate.Snapshot, txn *cellstate.Txn, c *cellstate.Conflict) {
	r.stats.add(func(st *Stats) {
		if st.Refused == nil {
			st.Refused = map[string]int64{}
		}
		st.Refused[string(c.Reason)]++
	})
	claim := &txn.Claims[c.Claim]
	fields := []zap.Field{
		zap.String("task", claim.Slot.String()), zap.String("node", string(claim.Node)), zap.String("txn", string(txn.ID)),
		zap.String("reason", string(c.Reason)), zap.String("dimension", c.Dimension),
	}
	e := r.queue.jobs[claim.Slot.JobName()]
	if c.Reason == cellstate.ReasonMalformed { // the claim is wrong, whatever the cell does
		r.Log.Error("the policy made a claim that no cell could grant", fields...)
		r.refuse(s, claim.Slot, fmt.Sprintf("the scheduler made a bad claim (%s)", c.Dimension))
		if e != nil {
			e.say()
		}
		return
	}
	r.Log.Debug("conflict", fields...)
	now := r.Clock()
	r.journal.add(ConflictRecord(r.ids.next(now), now, txn, c))
	if e == nil {
		return // the job went while its claims were on their way
	}
	e.lose(claim.Slot, c.Revision, now, r.Times.RetryMost, r.chance.Float64())
	e.lostOn(claim.Slot, claim.Node, true)
	e.lost = raceText(claim, c)
	e.say()
}

// raceText is a conflict for people.
func raceText(claim *cellstate.Claim, c *cellstate.Conflict) string {
	text := fmt.Sprintf("%s/%d lost node %s", claim.Slot.Group, claim.Slot.Index, claim.Node)
	if c.Winner != nil {
		text += fmt.Sprintf(" to %s of scheduler %s", c.Winner.Slot.Task(), c.Winner.GetScheduler())
	}
	return fmt.Sprintf("%s (%s %s)", text, c.Reason, c.Dimension)
}
