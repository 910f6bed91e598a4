package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// GetTxn gathers what is left of a transaction: its live placements, its ended
// attempts and the claims that it lost.
func (s *insight) GetTxn(ctx context.Context, req *ohmv1.GetTxnRequest) (*ohmv1.TxnView, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetTransaction() == "" {
		return nil, refuse(errInvalid, "the request names no transaction")
	}
	v := &ohmv1.TxnView{Transaction: req.GetTransaction()}
	for j := range snapshot.Jobs() {
		for _, t := range j.Tasks {
			if p := t.Placement; p != nil && p.GetTxn() == v.GetTransaction() {
				addClaim(v, p.Record(), int64(p.Revision), max(t.Status.GetState(), task.Assigned))
			}
			for _, e := range t.Ended {
				if e.GetPlacement().GetTxn() == v.GetTransaction() {
					addClaim(v, e.GetPlacement(), e.GetPlacementRevision(), e.GetStatus().GetState())
				}
			}
		}
	}
	for c := range snapshot.Conflicts("") {
		if c.GetTxn() != v.GetTransaction() {
			continue
		}
		v.Refused = append(v.Refused, conflictView(c))
		if v.GetScheduler() == "" { // nothing of it committed, or that is gone
			v.Scheduler, v.Instance, v.SnapshotRevision, v.Time = c.GetScheduler(), c.GetInstance(), c.GetSnapshotRevision(), c.GetTime()
		}
	}
	if len(v.GetCommitted())+len(v.GetRefused()) == 0 {
		return nil, refuse(cellstate.ErrNotFound, "nothing is stored of transaction %s: it is beyond retention, or never was", v.GetTransaction())
	}
	slices.SortFunc(v.Committed, func(a, b *ohmv1.TxnClaim) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetTask(), b.GetTask()))
	})
	return v, nil
}

func addClaim(v *ohmv1.TxnView, p *ohmv1.Placement, revision int64, state task.State) {
	v.Scheduler, v.Instance, v.Claims = p.GetScheduler(), p.GetInstance(), p.GetTxnClaims()
	v.SnapshotRevision, v.Time = p.GetSnapshotRevision(), p.GetTime()
	v.Mode = "incremental"
	if p.GetMode() == cellstate.Atomic {
		v.Mode = "atomic"
	}
	slot := cellstate.SlotOf(p.GetSlot())
	v.Committed = append(v.Committed, &ohmv1.TxnClaim{
		Namespace: slot.Namespace, Task: slot.Task(), Attempt: p.GetAttempt(), Node: p.GetNode(), Revision: revision, State: task.Name(state),
	})
}
