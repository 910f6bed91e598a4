package cellstate

import (
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// NewShare is the record of a share of which nothing is granted.
func NewShare(a Account) *ohmv1.Share {
	return &ohmv1.Share{Kind: a.Scope.Kind, Name: a.Scope.Name, Scheduler: a.Spender.Scheduler, Instance: a.Spender.Instance}
}

// QuotaWrite sets the quota of a scope. It is in force from the revision of the write on:
// a first limit changes what every commit compares, and one that is lower than before in any
// dimension takes back all shares, which are dealt anew from what is used then. changed
// is false where limit and weight are the same already.
func QuotaWrite(s *Snapshot, scope Scope, record *ohmv1.Quota) (w Write, changed bool) {
	record.Kind, record.Name = scope.Kind, scope.Name
	put := Record{Key: QuotaKey(scope), Value: record}
	q := s.Quota(scope)
	if q != nil && q.Record != nil {
		if LimitOf(record.GetLimit()) == q.Limit() && record.GetWeight() == q.Record.GetWeight() {
			return Write{Guards: []Guard{{Key: put.Key, Revision: q.Revision}}}, false
		}
		put.Read = q.Revision
	}
	w.Records = append(w.Records, put)
	first := q == nil || !q.limits() // what was planned until now compares no share of it
	if first {
		w.Records = append(w.Records, newQuotas(s, scope))
	}
	if q != nil && (first || lower(LimitOf(record.GetLimit()), q.Limit())) {
		for _, share := range q.Shares {
			if share.Record == nil || share.Granted() == (Amounts{}) {
				continue
			}
			taken := proto.CloneOf(share.Record)
			taken.Granted = nil
			w.Records = append(w.Records, Record{Key: ShareKey(Account{scope, share.Spender}), Value: taken, Read: share.Revision})
		}
	}
	return w, true
}

// lower says whether a limit is lower than another in any dimension.
func lower(limit, than Amounts) bool {
	for d := range limit {
		if limit[d] != Unlimited && (than[d] == Unlimited || limit[d] < than[d]) {
			return true
		}
	}
	return false
}

// QuotaRemoval removes the quota of a scope and its shares.
func QuotaRemoval(q *Quota) Write {
	w := Write{Records: []Record{{Key: QuotaKey(q.Scope), Read: q.Revision}}}
	for _, share := range q.Shares {
		if share.Record != nil {
			w.Records = append(w.Records, Record{Key: ShareKey(Account{q.Scope, share.Spender}), Read: share.Revision})
		}
	}
	return w
}
