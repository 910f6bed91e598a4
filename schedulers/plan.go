package schedulers

import (
	"context"
	"fmt"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// mostChosen bounds the tasks of a group of which a plan says where they would go.
const mostChosen = 100

// aboutPlan says where the tasks of a job would go if it had another record. The policy decides on a
// snapshot in which it has that and what it ends has ended, and the rule of the commit judges
// what it wants: nothing is claimed.
func (r *Runner) aboutPlan(ctx context.Context, s *cellstate.Snapshot, now time.Time, a *ohmv1.Ask) (*ohmv1.PlacementPlan, error) {
	name := cellstate.JobNameOf(a.GetPlan().GetSpec())
	row := s.Job(name)
	if row == nil {
		row = &cellstate.Job{}
	}
	would, err := s.With(cellstate.JobRecords(row, name, a.GetPlan(), a.GetRollout())...)
	if err != nil {
		return nil, err
	}
	if would, err = reconcile.Settled(would, would.Job(name)); err != nil {
		return nil, err
	}
	plan := &ohmv1.PlacementPlan{Scheduler: r.Name, Instance: r.Instance, SnapshotRevision: int64(s.Revision())}
	job := would.Job(name)
	needs, _ := r.queue.limits.Needs(would, job, now)
	for _, g := range job.Record.GetSpec().GetGroups() {
		plan.Groups = append(plan.Groups, &ohmv1.GroupPlacement{Group: g.GetName()})
	}
	group := func(name string) *ohmv1.GroupPlacement {
		for _, g := range plan.Groups {
			if g.GetGroup() == name {
				return g
			}
		}
		return &ohmv1.GroupPlacement{} // of a policy that has made it up
	}
	for _, n := range needs {
		group(n.Slot.Group).Wanted++
	}
	needs, unpaid := r.wouldPay(would, job, needs)
	for name, word := range unpaid {
		g := group(name)
		g.Message = groupText(name, g.Wanted, word)
		g.Waiting = &ohmv1.GroupWaiting{Group: name, Waiting: g.Wanted, Reasons: word.reasons}
	}
	if len(needs) == 0 {
		return plan, nil
	}
	proposal, err := r.Scheduler.Schedule(ctx, Input{
		Snapshot: would, Work: []Work{{Job: job, Needs: needs}}, Home: r.queue.shares.home, Limits: r.Store.Limits(),
		Evictions: r.mayEvict(), Now: now, Seed: hash(r.Name, r.Instance, fmt.Sprint(would.Revision())),
	})
	if err != nil {
		return nil, fmt.Errorf("the policy failed: %w", err)
	}
	for _, t := range proposal.Txns {
		txn := *t
		txn.ID, txn.Scheduler, txn.Snapshot = "plan", r.Name, would.Revision()
		fit, conflicts := cellstate.Validate(would, &txn)
		for _, i := range fit {
			choose(group(txn.Claims[i].Slot.Group), &txn.Claims[i])
		}
		for _, c := range conflicts {
			group(txn.Claims[c.Claim].Slot.Group).Message = fmt.Sprintf("the commit would refuse node %s (%s %s)", txn.Claims[c.Claim].Node, c.Reason, c.Dimension)
		}
	}
	for _, u := range proposal.Unplaced {
		g := group(u.Group)
		g.Waiting = &ohmv1.GroupWaiting{
			Group: u.Group, Waiting: int32(len(u.Slots)), Nodes: int32(u.Nodes), Reasons: addUp(u.Reasons, u.Nodes),
			NoVictims: u.NoVictims, NoVictimsCode: u.NoVictimsCode, Never: never(would, job.Group(u.Group)),
		}
		g.Message = groupText(u.Group, g.Waiting.Waiting, refusal{nodes: u.Nodes, reasons: g.Waiting.Reasons, rigid: u.NoVictims, never: g.Waiting.Never})
	}
	for _, g := range plan.Groups {
		if g.Placed < g.Wanted && g.Message == "" {
			g.Message = "the scheduler gave no reason"
		}
	}
	return plan, nil
}

func choose(g *ohmv1.GroupPlacement, c *cellstate.Claim) {
	if g.Placed++; len(g.Chosen) == mostChosen {
		g.MoreChosen++
		return
	}
	g.Chosen = append(g.Chosen, chosenNode(c))
}

// wouldPay is the part of the needs that the quotas leave room for, all shares of them taken
// together, and by group why the rest would wait.
func (r *Runner) wouldPay(s *cellstate.Snapshot, job *cellstate.Job, needs []reconcile.Need) (paid []reconcile.Need, unpaid map[string]refusal) {
	ns := job.Name.Namespace
	b := &budget{purses: map[string][]*purse{ns: nil}}
	for _, account := range s.Accounts(ns, r.spender()) {
		q := s.Quota(account.Scope)
		b.purses[ns] = append(b.purses[ns], &purse{account.Scope, q.Limit(), q.Limit().Minus(q.Used())})
	}
	unpaid = map[string]refusal{}
	pay := func(needs ...reconcile.Need) {
		c := cost(needs...)
		short := b.take(ns, c)
		if short == nil {
			paid = append(paid, needs...)
			return
		}
		for _, n := range needs {
			unpaid[n.Slot.Group] = short.refusal(c, gang(job))
		}
	}
	if gang(job) {
		pay(needs...)
		return paid, unpaid
	}
	for _, n := range needs {
		pay(n)
	}
	return paid, unpaid
}
