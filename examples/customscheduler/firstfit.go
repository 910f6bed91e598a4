package main

import (
	"context"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// firstFit is the policy: a pure function from a snapshot and the work to claims. The
// table keeps what was worked out for earlier snapshots; it changes no choice.
type firstFit struct{ table *place.Table }

func newFirstFit() firstFit { return firstFit{place.NewTable()} }

// Schedule implements schedulers.Scheduler.
func (f firstFit) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	return f.table.Each(ctx, in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		before := r.Mark()
		txn, unplaced := r.Incremental(w, func(q *place.Request, need reconcile.Need) (node int, ok bool) {
			for n := range in.Snapshot.Nodes() {
				if need.Node != "" && need.Node != n.Name { // a system job's task belongs to one node
					continue
				}
				if node, ok = r.Only(q, n.Name); ok {
					return node, true
				}
			}
			return 0, false
		})
		if w.Job.Record.GetSpec().GetKind() != "ml" || txn == nil {
			return txn, unplaced
		}
		if len(txn.Claims) == len(w.Needs) { // a gang: all of it at once …
			txn.Mode = cellstate.Atomic
			return txn, nil
		}
		r.Undo(before)          // … or nothing, and what it had claimed is free again
		if len(unplaced) == 0 { // the others wait for the answer to a request under way
			return nil, nil
		}
		return nil, whole(r, w)
	})
}

// whole explains a gang that found no room for all of its tasks.
func whole(r *place.Round, w schedulers.Work) (unplaced []schedulers.Unplaced) {
	for _, need := range w.Needs {
		unplaced = r.Miss(unplaced, need)
	}
	for i, u := range unplaced {
		q := r.Request(w.Job, w.Job.Group(u.Group))
		unplaced[i].Reasons = r.Explain(q, nil, &ohmv1.Reason{Reason: "Gang", Detail: "has room for one task, but there is none for all"})
	}
	return unplaced
}
