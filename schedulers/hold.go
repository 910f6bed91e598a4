package schedulers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Who keeps losing starves: by the time at which a slow policy has decided, a quick one has
// taken the room, or it never sees any (missed.go). So after some losses of a slot, or of a
// gang, the Runner itself looks for nodes where the tasks fit, on the latest snapshot and
// again on each newer one, while the policy goes on with other work; has the room held; and then asks the policy to
// decide within what is held, which takes as long as it takes. The policy keeps the last
// word on every claim, as a customer's may know what no filter here does: what it does not
// claim is given back. Nothing is held for a task that does not fit, nor of a gang of
// which not enough fits, so two that starve never wait for each other.
//
// Of one instance there is one set of holds at a time, under one lease, within the bounds
// below. It ends with the commit, with what the policy leaves of it, or with the lease.
const (
	holdTxns   = 8   // transactions
	holdClaims = 100 // claims of one that is no gang
)

// held is what came of a search for room.
type held struct {
	all    []*starving
	placed []*starving // those with a txn
	lease  cellstate.Lease
	at     cellstate.Revision
}

// landRoom takes in what a search has found; with wait it waits for its end, and gives
// back what it has found.
func (r *Runner) landRoom(ctx context.Context, wait bool) {
	if wait {
		if r.seeking {
			r.takeRoom(<-r.found)
		}
		if r.within != nil {
			r.giveBack(ctx, r.within.lease)
		}
		return
	}
	select {
	case h := <-r.found:
		r.takeRoom(h)
	default:
	}
}

func (r *Runner) takeRoom(h *held) {
	r.seeking = false
	for _, u := range h.all {
		if !slices.Contains(h.placed, u) {
			r.unwatch(u)
		}
	}
	for _, u := range h.placed {
		if e := r.queue.jobs[u.job.Name]; e != nil && e.job != nil {
			e.kept = keptText(u.txn)
			e.say()
		}
	}
	if len(h.placed) > 0 {
		r.within = h
		if r.deciding > r.Times.Words { // so long people may wonder
			r.wordsAt = time.Time{}
		}
		r.stats.add(func(c *Stats) { c.Holds += int64(len(h.placed)) })
	}
}

// keptText is a hold for people.
func keptText(txn *cellstate.Txn) string {
	first := txn.Claims[0]
	text := fmt.Sprintf("room is held on node %s for %s/%d", first.Node, first.Slot.Group, first.Slot.Index)
	if more := len(txn.Claims) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// unwatch leaves the slots to the queue again.
func (r *Runner) unwatch(u *starving) {
	for _, n := range u.needs {
		r.queue.fly(n.Slot, false)
	}
}

// decideWithin has the policy decide within the room that is held, and commits its claims
// under the ids of the holds. It reports whether there was any.
func (r *Runner) decideWithin(ctx context.Context, s *cellstate.Snapshot) bool {
	h := r.within
	if h == nil {
		return false
	}
	r.within = nil
	now := r.Clock()
	var txns []*cellstate.Txn
	var work []Work
	asked := map[cellstate.Slot]reconcile.Need{}
	others := map[cellstate.NodeName]bool{}
	for n := range s.Nodes() {
		others[n.Name] = true
	}
	for _, u := range h.placed {
		r.unwatch(u)
		if w, ok := r.queue.still(u); ok {
			work, txns = append(work, w), append(txns, u.txn)
			for _, n := range w.Needs {
				asked[n.Slot] = n
			}
			for _, c := range u.txn.Claims {
				delete(others, c.Node)
			}
		}
	}
	view, err := s.WithinHolds(txns...)
	var in Input
	var proposal Proposal
	if err == nil && len(work) > 0 {
		in = Input{Snapshot: view, Now: now, Work: work, Limits: r.Store.Limits(), InFlight: others, Seed: hash(r.Name, string(h.placed[0].txn.ID))}
		proposal, err = r.ask(ctx, in, len(asked))
	}
	if err != nil && ctx.Err() == nil {
		r.Log.Error("the policy failed within held room", zap.Int64("revision", int64(s.Revision())), zap.Error(err))
	}
	f := &flight{snapshot: s, lease: h.lease}
	if err == nil {
		f.txns = underHolds(r.admit(view, now, proposal.Txns, asked), txns)
	}
	for slot := range asked { // the policy left it, for once without haste: it begins anew
		if e := r.queue.jobs[slot.JobName()]; e != nil {
			delete(e.losses, slot)
			e.defeats, e.lost = 0, ""
		}
	}
	for _, u := range h.placed {
		if e := r.queue.jobs[u.job.Name]; e != nil && e.job != nil {
			e.kept = ""
			e.say()
		}
	}
	if len(f.txns) == 0 || ctx.Err() != nil {
		r.giveBack(ctx, h.lease)
		return true
	}
	r.decided.note(&decidedRound{at: now, seed: in.Seed, snapshot: s.Revision(), decisions: proposal.Decisions, flight: f})
	r.launch(ctx, f)
	return true
}

// still is what is left of the work for which room is held.
func (q *queue) still(u *starving) (Work, bool) {
	e := q.jobs[u.job.Name]
	if e == nil || !e.owned || e.job == nil || e.job.Revision != u.job.Revision {
		return Work{}, false
	}
	w := Work{Job: e.job}
	for _, n := range e.needs {
		claimed := slices.ContainsFunc(u.txn.Claims, func(c cellstate.Claim) bool { return c.Slot == n.Slot && c.Attempt == n.Attempt })
		if claimed {
			w.Needs = append(w.Needs, n)
		}
	}
	return w, len(w.Needs) >= u.least
}

// underHolds gives the claims of each job the id of its hold.
func underHolds(proposed, holds []*cellstate.Txn) (txns []*cellstate.Txn) {
	for _, h := range holds {
		var txn *cellstate.Txn
		for _, p := range proposed {
			for _, c := range p.Claims {
				if c.Slot.JobName() != h.Claims[0].Slot.JobName() {
					continue
				}
				if txn == nil {
					first := *p
					first.ID, first.Claims = h.ID, nil
					txn = &first
					txns = append(txns, txn)
				}
				txn.Claims = append(txn.Claims, c)
			}
		}
	}
	return txns
}
