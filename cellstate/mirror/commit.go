package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
)

// rounds bounds how often one Commit tries again after fences have moved. A claim
// that lost its race in each of them is left without commit and without conflict, for
// the caller to propose again.
const rounds = 8

// Commit commits what fits of the transactions and returns a result for each.
//
// A round validates on the latest snapshot and sends what fits. Where a fence, a slot
// or a job had moved in the store, the next round waits for the revision of the
// store's answer and validates again, so only what really does not fit is a conflict
// (the Omega paper's fine check, section 3.6).
func (m *Mirror) Commit(ctx context.Context, txns ...*cellstate.Txn) ([]cellstate.Result, error) {
	results := make([]cellstate.Result, len(txns))
	settled := map[cellstate.ClaimRef]bool{}
	for i, t := range txns {
		results[i].Txn = t
	}
	snapshot, err := m.newest(ctx, txns)
	reloaded := false
	for round := 0; err == nil && round < rounds; round++ {
		var plan *cellstate.Plan
		var spent []*entry
		plan, spent, err = m.plan(ctx, snapshot, txns, func(s *cellstate.Snapshot) *cellstate.Plan {
			return cellstate.MakePlan(s, time.Now(), m.store.Limits().Batch, txns, func(r cellstate.ClaimRef) bool { return settled[r] })
		})
		if err != nil {
			break
		}
		done := func(ref cellstate.ClaimRef, at cellstate.Revision) {
			settled[ref] = true
			r := &results[ref.Txn]
			r.Committed = append(r.Committed, ref.Claim)
			r.Revision = max(r.Revision, at)
		}
		for ref, at := range plan.Done {
			done(ref, at)
		}
		for t, conflicts := range plan.Conflicts {
			results[t].Conflicts = append(results[t].Conflicts, conflicts...)
			if len(conflicts) > 0 && txns[t].Mode == cellstate.Atomic {
				settleAll(settled, t, txns[t])
			}
			for _, c := range conflicts {
				settled[cellstate.ClaimRef{Txn: t, Claim: c.Claim}] = true
			}
		}
		if len(plan.Writes) == 0 && len(plan.Deferred) == 0 {
			break
		}
		var out cellstate.Outcome
		out, err = m.store.Commit(ctx, plan.Writes...)
		m.ledger.settle(spent, out.Applied, err)
		if err != nil {
			break
		}
		var refused []cellstate.Write
		for w, at := range out.Applied {
			if at == 0 {
				refused = append(refused, plan.Writes[w])
				continue
			}
			for _, ref := range plan.Claims[w] {
				done(ref, at)
			}
		}
		if len(refused) == 0 && len(plan.Deferred) == 0 {
			break
		}
		if snapshot, err = m.WaitSnapshot(ctx, out.Revision); err == nil && !reloaded && slices.ContainsFunc(refused, func(w cellstate.Write) bool { return snapshot.Holds(&w) }) {
			// All that the store found otherwise is on a snapshot newer than its answer still as
			// it was compared: the snapshot is wrong, not old.
			reloaded = true
			m.differs.Add(1)
			m.log.Warn("the store refuses what holds on the snapshot", zap.Int64("revision", int64(snapshot.Revision())))
			if err = m.reload(ctx, errRefused); err == nil {
				snapshot, err = m.WaitSnapshot(ctx, out.Revision)
			}
		}
	}
	if errors.Is(err, cellstate.ErrIncarnation) {
		m.end(fmt.Errorf("%w: %w", errResync, err)) // whoever sees another store loads before he acts
	}
	for i := range results {
		slices.Sort(results[i].Committed)
	}
	return results, err
}

var errRefused = errors.New("the store refuses what holds on the snapshot")

func settleAll(settled map[cellstate.ClaimRef]bool, t int, txn *cellstate.Txn) {
	for i := range txn.Claims {
		settled[cellstate.ClaimRef{Txn: t, Claim: i}] = true
	}
}

// newest is a snapshot at least as new as those on which the transactions were decided.
func (m *Mirror) newest(ctx context.Context, txns []*cellstate.Txn) (*cellstate.Snapshot, error) {
	var least cellstate.Revision
	for _, t := range txns {
		least = max(least, t.Snapshot)
	}
	return m.WaitSnapshot(ctx, least)
}
