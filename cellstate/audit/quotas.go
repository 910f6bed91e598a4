package audit

import (
	"github.com/ohmcell/ohm/cellstate"
)

// quotas checks the scopes that the revision adds to, or whose shares it changes. A quota
// that is lower than what is used already is no violation: only what grows must fit.
func (r *revision) quotas() {
	for scope, by := range r.added() {
		q := r.before.Quota(scope)
		if q == nil || q.Record == nil {
			continue // set by this very revision, at the earliest
		}
		after := r.after.Quota(scope)
		key := by.Slot.PlacementKey()
		for d, limit := range q.Limit() {
			if was, is := q.Used()[d], after.Used()[d]; limit != cellstate.Unlimited && is > was && is > limit {
				r.violated(Quotas, key, "%s has a quota of %s %s, uses %s", scope, cellstate.AmountText(d, limit), cellstate.DimensionName(d), cellstate.AmountText(d, is))
			}
		}
		for _, share := range after.Shares {
			was := q.Share(share.Spender)
			for d, limit := range q.Limit() {
				if granted := was.Granted()[d]; limit != cellstate.Unlimited && share.Used[d] > was.Used[d] && share.Used[d] > granted {
					r.violated(Quotas, key, "%s %s spends %s %s of a share of %s in %s", share.Scheduler, share.Instance,
						cellstate.AmountText(d, share.Used[d]), cellstate.DimensionName(d), cellstate.AmountText(d, granted), scope)
				}
			}
		}
	}
	for _, c := range r.changes {
		if k := c.Key.Parse(); k.Kind == cellstate.KindShare {
			var before cellstate.Amounts
			if was := r.before.Quota(k.Scope); was != nil {
				before = was.Granted()
			}
			if q := r.after.Quota(k.Scope); q != nil {
				r.granted(q, before, c.Key)
			}
		}
	}
}

// added are the scopes of the revision's commits, with one of those of each.
func (r *revision) added() map[cellstate.Scope]*cellstate.Placement {
	by := map[cellstate.Scope]*cellstate.Placement{}
	if !r.before.HasQuotas() {
		return by
	}
	for _, p := range r.commits {
		by[cellstate.Scope{Kind: cellstate.NamespaceScope, Name: p.Slot.Namespace}] = p
		by[cellstate.Scope{Kind: cellstate.SchedulerScope, Name: p.GetScheduler()}] = p
	}
	return by
}

// granted checks that the shares of a quota do not sum to more than it, unless they did
// so before.
func (r *revision) granted(q *cellstate.Quota, before cellstate.Amounts, key cellstate.Key) {
	for d, limit := range q.Limit() {
		if sum := q.Granted()[d]; limit != cellstate.Unlimited && sum > before[d] && sum > limit {
			r.violated(Quotas, key, "%s has a quota of %s %s, its shares sum to %s", q.Scope, cellstate.AmountText(d, limit), cellstate.DimensionName(d), cellstate.AmountText(d, sum))
		}
	}
}

// sharesStanding checks what the oldest state shows of quotas.
func (a *Auditor) sharesStanding() {
	for q := range a.state.Quotas() {
		newRevision(a, a.state, a.state, nil).granted(q, cellstate.Amounts{}, cellstate.QuotaKey(q.Scope))
	}
}
