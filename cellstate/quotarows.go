package cellstate

import (
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// quotaEdits are the rows of quotas that a batch has touched; nil stands for a scope
// without one.
type quotaEdits map[Scope]*Quota

// quota is the row of a scope, ready to be written to; nil if there is none and it is not
// to be made.
func (a *applier) quota(scope Scope, make bool) *Quota {
	q, known := a.quotas[scope]
	if !known {
		if was := a.next.Quota(scope); was != nil {
			copied := *was
			copied.Shares = slices.Clone(was.Shares)
			q = &copied
		}
	}
	if q == nil && make {
		q = &Quota{Scope: scope}
		a.next.quotas++
	}
	if a.quotas == nil {
		a.quotas = quotaEdits{}
	}
	a.quotas[scope] = q
	return q
}

func (q *Quota) edit(s Spender, stamp uint64) *Share {
	i, ok := q.find(s)
	switch {
	case !ok:
		q.Shares = slices.Insert(q.Shares, i, &Share{Spender: s, stamp: stamp})
	case q.Shares[i].stamp != stamp:
		copied := *q.Shares[i]
		copied.stamp = stamp
		q.Shares[i] = &copied
	}
	return q.Shares[i]
}

// count adds a placement to what its scopes use, or takes it off.
func (q *Quota) count(p *Placement, times int, stamp uint64) {
	s := q.edit(Spender{p.GetScheduler(), p.GetInstance()}, stamp)
	s.Tasks += times
	s.Used = s.Used.times(amountsOf(p.GetResources(), p.GetGpus()), int64(times))
}

// account counts a placement that came or went, at a revision, for the scopes that have
// a quota.
func (a *applier) account(p *Placement, times int, at Revision) {
	if f := a.sharing(); f != nil {
		f.hold(p, int64(times))
	}
	for _, scope := range scopes(p.Slot.Namespace, p.GetScheduler()) {
		if q := a.quota(scope, false); q != nil && q.counted {
			q.count(p, times, a.stamp)
			if times < 0 {
				a.next.quotaRevision = max(a.next.quotaRevision, at)
			}
		}
	}
}

// quotaChange takes in a change of a quota or of a share.
func (a *applier) quotaChange(k Parsed, c *Change, rev Revision) {
	a.next.quotaRevision = max(a.next.quotaRevision, c.Revision)
	q := a.quota(k.Scope, true)
	if k.Kind == KindQuota {
		q.Record, q.Revision = value[*ohmv1.Quota](c), rev
		return
	}
	s := q.edit(k.Spender, a.stamp)
	s.Record, s.Revision = value[*ohmv1.Share](c), rev
}

// finishQuotas counts what is used in scopes that are new, from all placements, and puts
// the rows.
func (a *applier) finishQuotas() {
	fresh := false
	for _, q := range a.quotas {
		fresh = fresh || q != nil && !q.counted
	}
	if fresh {
		for n := range a.next.nodes.all() {
			for _, p := range n.Placements() {
				for _, scope := range scopes(p.Slot.Namespace, p.GetScheduler()) {
					if q := a.quotas[scope]; q != nil && !q.counted {
						q.count(p, 1, a.stamp)
					}
				}
			}
		}
	}
	for _, q := range a.quotas {
		if q == nil {
			continue
		}
		q.counted = true
		shared := false
		q.Shares = slices.DeleteFunc(q.Shares, func(s *Share) bool {
			shared = shared || s.Record != nil
			return s.Record == nil && s.Tasks == 0
		})
		gone := q.Record == nil && !shared
		if gone {
			a.next.quotas--
		}
		a.put("quotas", q, gone)
	}
	a.weigh()
}
