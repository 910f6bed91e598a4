package place

import (
	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Incremental places what it can of one job: each need on the node that choose finds or,
// where it finds none, on one where others give way, all claims in one incremental
// transaction, nil if there are none; and it explains, group by group, what found no node,
// less what awaits one.
func (r *Round) Incremental(w schedulers.Work, choose func(*Request, reconcile.Need) (node int, ok bool)) (*cellstate.Txn, []schedulers.Unplaced) {
	var claims []cellstate.Claim
	var unplaced []schedulers.Unplaced
	search := r.Search(w.Job, choose)
	for _, need := range w.Needs {
		claim, ok, awaits := search.Claim(need, true)
		switch {
		case ok:
			if claims == nil {
				claims = make([]cellstate.Claim, 0, len(w.Needs))
			}
			claims = append(claims, claim)
		case !awaits:
			unplaced = r.Miss(unplaced, need)
		}
	}
	search.Tell(unplaced)
	for i := range unplaced {
		r.explainMissed(w, &unplaced[i])
	}
	if len(claims) == 0 {
		return nil, unplaced
	}
	return &cellstate.Txn{Mode: cellstate.Incremental, Claims: claims}, unplaced
}

// Miss adds a slot to the explanation of its group, which has no reasons yet.
func (r *Round) Miss(unplaced []schedulers.Unplaced, need reconcile.Need) []schedulers.Unplaced {
	for i := range unplaced {
		if unplaced[i].Group == need.Slot.Group {
			unplaced[i].Slots = append(unplaced[i].Slots, need.Slot)
			return unplaced
		}
	}
	return append(unplaced, schedulers.Unplaced{
		Job: need.Slot.JobName(), Group: need.Slot.Group, Slots: []cellstate.Slot{need.Slot}, Nodes: len(r.t.candidates),
	})
}

// ReasonNotAsked counts the nodes that a group needs nothing of.
const ReasonNotAsked = "NotAsked"

// explainMissed explains a group on the overlay after all of its job was tried. Where
// needs name their node, only those nodes are asked.
func (r *Round) explainMissed(w schedulers.Work, u *schedulers.Unplaced) {
	missed := map[cellstate.Slot]bool{}
	for _, s := range u.Slots {
		missed[s] = true
	}
	var asked []int
	var q *Request
	for _, need := range w.Needs {
		if !missed[need.Slot] {
			continue
		}
		q = r.Request(w.Job, need.Group)
		if i, known := r.t.index[need.Node]; known {
			asked = append(asked, i)
		} else if need.Node != "" && asked == nil {
			asked = []int{} // a node that is no more
		}
	}
	u.Reasons = r.Explain(q, asked, &ohmv1.Reason{Reason: ReasonNotAsked, Detail: "has its task, or is not to have one"})
}
