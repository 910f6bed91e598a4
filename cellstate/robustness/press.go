package robustness

import (
	"context"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// Press is a policy that presses tasks of lower precedence out where its own find no room.
// It tries every node, since the cell of a run is small.
type Press struct{}

// Schedule proposes one incremental transaction for each job.
func (Press) Schedule(_ context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	var p schedulers.Proposal
	for _, w := range in.Work {
		txn := &cellstate.Txn{ID: "proposed", Scheduler: w.Job.Record.GetSpec().GetScheduler(), Mode: cellstate.Incremental}
		u := schedulers.Unplaced{Job: w.Job.Name}
		for _, need := range w.Needs {
			claim := cellstate.Claim{Slot: need.Slot, Attempt: need.Attempt, Resources: need.Group.GetResources(),
				Precedence: int(w.Job.Record.GetSpec().GetPrecedence()), JobRevision: w.Job.Revision}
			if !somewhere(in, txn, claim) && len(in.InFlight) == 0 {
				u.Group, u.Slots = need.Slot.Group, append(u.Slots, need.Slot)
			}
		}
		if len(txn.Claims) > 0 {
			p.Txns = append(p.Txns, txn)
		}
		if len(u.Slots) > 0 {
			u.Nodes = in.Snapshot.NodeCount()
			u.Reasons = []*ohmv1.Reason{{Reason: string(cellstate.ReasonResources), Nodes: int32(u.Nodes)}}
			p.Unplaced = append(p.Unplaced, u)
		}
	}
	return p, nil
}

// somewhere adds the claim to the transaction on the first node where it fits, or else on
// the first where it fits when others give way.
func somewhere(in schedulers.Input, txn *cellstate.Txn, claim cellstate.Claim) bool {
	before := txn.Claims
	fits := func(n *cellstate.Node, victims []*ohmv1.Victim) bool {
		claim.Node, claim.Victims = n.Name, victims
		txn.Claims = append(before[:len(before):len(before)], claim)
		fit, _ := cellstate.Validate(in.Snapshot, txn)
		if len(fit) == len(txn.Claims) {
			return true
		}
		txn.Claims = before
		return false
	}
	for _, press := range []bool{false, true} {
		for n := range in.Snapshot.Nodes() {
			if in.InFlight[n.Name] || n.Facts == nil {
				continue
			}
			if !press {
				if fits(n, nil) {
					return true
				}
				continue
			}
			var victims []*ohmv1.Victim
			for _, p := range n.Placements() {
				if int(p.GetPrecedence()) >= claim.Precedence || p.GetEvictedBy() != "" {
					continue
				}
				victims = append(victims, &ohmv1.Victim{Slot: p.GetSlot(), Attempt: p.GetAttempt(), Txn: p.GetTxn()})
				if fits(n, victims) {
					return true
				}
			}
		}
	}
	return false
}
