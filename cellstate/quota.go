package cellstate

import (
	"cmp"
	"iter"
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A quota bounds what all live placements of a scope take together. It is dealt out as
// shares, one for each scheduler instance that places tasks there, so that instances need
// not meet: a commit compares its instance's share and never puts it. What an instance has
// used is derived from its live placements. Invariants, for each limited dimension:
//
//   - granted to all together is at most the limit;
//   - used or granted, whichever is more, summed over all instances, grows only by a
//     grant of the keeper, which keeps it within the limit;
//   - an instance's use grows only to what is granted to it.
//
// So a commit never takes the scope beyond its limit. A share is raised by the keeper
// alone; its owner lowers it, the keeper once the owner is gone, and the operator's change
// of the limit takes all shares back, to be dealt anew.

// The kinds of scopes.
const (
	NamespaceScope = "namespace"
	SchedulerScope = "scheduler"
)

// Scope is what a quota is over.
type Scope struct{ Kind, Name string }

func (s Scope) String() string { return s.Kind + " " + s.Name }

// Spender is a scheduler instance as the owner of shares.
type Spender struct{ Scheduler, Instance string }

func (s Spender) compare(o Spender) int {
	return cmp.Or(cmp.Compare(s.Scheduler, o.Scheduler), cmp.Compare(s.Instance, o.Instance))
}

// Account is what a spender has in a scope.
type Account struct {
	Scope   Scope
	Spender Spender
}

// scopes are those that a placement in a namespace by a scheduler counts for.
func scopes(namespace, scheduler string) [2]Scope {
	return [2]Scope{{NamespaceScope, namespace}, {SchedulerScope, scheduler}}
}

// Quota is the row of a scope that has a quota, or shares of one that is gone.
type Quota struct {
	Scope    Scope
	Record   *ohmv1.Quota // nil: gone
	Revision Revision
	Shares   []*Share // by spender: of each that has a share or uses something

	counted bool // what is used has been counted
}

// Share is the row of an account.
type Share struct {
	Spender
	Record   *ohmv1.Share // nil: none
	Revision Revision
	Used     Amounts // by the spender's live placements in the scope
	Tasks    int     // those placements
	stamp    uint64
}

// Granted is what the spender may use.
func (s *Share) Granted() Amounts { return AmountsOf(s.Record.GetGranted()) }

// held is what nobody else may have: what is used or granted, whichever is more.
func (s *Share) held() Amounts { return s.Used.Most(s.Granted()) }

// Limit is the quota's; without a record nothing is limited.
func (q *Quota) Limit() Amounts { return LimitOf(q.Record.GetLimit()) }

// limits says whether the quota limits anything: one may be there for its weight alone.
func (q *Quota) limits() bool {
	return q.Record != nil && q.Limit() != Amounts{Unlimited, Unlimited, Unlimited, Unlimited}
}

// Share is the row of a spender; an empty one if there is none.
func (q *Quota) Share(s Spender) *Share {
	if i, ok := q.find(s); ok {
		return q.Shares[i]
	}
	return &Share{Spender: s}
}

// Number is the place of a spender among the shares; -1 if it has no row.
func (q *Quota) Number(s Spender) int {
	if i, ok := q.find(s); ok {
		return i
	}
	return -1
}

func (q *Quota) find(s Spender) (int, bool) {
	return slices.BinarySearchFunc(q.Shares, s, func(x *Share, s Spender) int { return x.Spender.compare(s) })
}

// Used is what all live placements of the scope take.
func (q *Quota) Used() (sum Amounts) {
	for _, s := range q.Shares {
		sum = sum.Plus(s.Used)
	}
	return sum
}

// Granted is what is granted to all spenders.
func (q *Quota) Granted() (sum Amounts) {
	for _, s := range q.Shares {
		sum = sum.Plus(s.Granted())
	}
	return sum
}

// Held is used or granted, whichever is more, summed over the spenders.
func (q *Quota) Held() (sum Amounts) {
	for _, s := range q.Shares {
		sum = sum.Plus(s.held())
	}
	return sum
}

// HasQuotas says whether there is any quota at all. Where there is none, none of this
// costs anything.
func (s *Snapshot) HasQuotas() bool { return s.quotas > 0 }

// Quota is the row of a scope; nil if it has no quota and no shares.
func (s *Snapshot) Quota(scope Scope) *Quota {
	if s.quotas == 0 {
		return nil
	}
	return first[Quota](s, "quotas", "id", scope.Kind+"/"+scope.Name)
}

// Quotas are the rows of all quotas, by scope.
func (s *Snapshot) Quotas() iter.Seq[*Quota] { return all[Quota](s, "quotas", "id_prefix", "") }

// QuotaRevision is the last revision at which something may have come to be affordable: a
// quota or a share changed, or a placement under a quota went.
func (s *Snapshot) QuotaRevision() Revision { return s.quotaRevision }

// Registered says whether an instance has a live registration.
func (s *Snapshot) Registered(spender Spender) bool {
	row := s.Scheduler(spender.Scheduler)
	return row != nil && slices.ContainsFunc(row.Instances, func(i Instance) bool { return i.GetInstance() == spender.Instance })
}

// quotasMeta names the meta record whose revision is that of the last quota that was
// created. Every commit of claims compares it, once a request, so that none that was
// planned before a quota was there slips past it.
const quotasMeta = "quotas"

// newQuotas is the record that a write which creates a quota must put, too.
func newQuotas(s *Snapshot, scope Scope) Record {
	_, read := s.Meta(quotasMeta)
	return Record{Key: MetaKey(quotasMeta), Read: read, Value: &ohmv1.Meta{Value: scope.String()}}
}
