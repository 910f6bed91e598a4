package keeper

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
)

// raise is the write that raises shares of a quota to what is due, from what nobody uses
// or is granted; without records if there is nothing to raise. It puts the quota's record
// again, compared: of two raises that were worked out from the same state, one of them by
// a request of unknown fate, only one can apply.
func raise(s *cellstate.Snapshot, q *cellstate.Quota) (w cellstate.Write) {
	deal, limit := s.Deal(q), q.Limit()
	for i, share := range q.Shares {
		held := share.Used.Most(share.Granted())
		more := deal.Due[i].Most(held).Minus(held)
		if !deal.Waits[i] || more == (cellstate.Amounts{}) || more.Short(deal.Free, limit) >= 0 {
			continue // others must give back first
		}
		deal.Free = deal.Free.Minus(more)
		record := proto.CloneOf(share.Record)
		record.Granted = share.Granted().Most(deal.Due[i]).Proto()
		w.Records = append(w.Records, cellstate.Record{Key: shareKey(q, share), Value: record, Read: share.Revision})
	}
	if len(w.Records) > 0 {
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.QuotaKey(q.Scope), Value: q.Record, Read: q.Revision})
	}
	return w
}

func shareKey(q *cellstate.Quota, share *cellstate.Share) cellstate.Key {
	return cellstate.ShareKey(cellstate.Account{Scope: q.Scope, Spender: share.Spender})
}

// inherit are the writes that take back the shares of instances that are gone, but for
// what their placements still use, and those of a quota that was removed. Whatever such an
// instance has sent compares its share, so once a write applies what it uses is final.
func inherit(s *cellstate.Snapshot, q *cellstate.Quota) []cellstate.Write {
	var writes []cellstate.Write
	for _, share := range q.Shares {
		rec := cellstate.Record{Key: shareKey(q, share), Read: share.Revision}
		w := cellstate.Write{Guards: []cellstate.Guard{{Key: cellstate.InstanceKey(share.Scheduler, share.Instance)}}}
		least := share.Granted().Least(share.Used)
		switch {
		case share.Record == nil:
			continue
		case q.Record == nil:
			w.Guards = []cellstate.Guard{{Key: cellstate.QuotaKey(q.Scope)}}
		case s.Registered(share.Spender):
			continue
		case share.Tasks > 0 && least == share.Granted():
			continue
		case share.Tasks > 0:
			record := proto.CloneOf(share.Record)
			record.Granted = least.Proto()
			rec.Value = record
		}
		w.Records = []cellstate.Record{rec}
		writes = append(writes, w)
	}
	return writes
}

// deal deals out what quotas there are.
func (k *Keeper) deal(ctx context.Context, lead cellstate.Guard, s *cellstate.Snapshot) error {
	if !s.HasQuotas() {
		return nil
	}
	var writes []cellstate.Write
	for q := range s.Quotas() {
		back := inherit(s, q)
		if w := raise(s, q); len(back) == 0 && len(w.Records) > 0 { // else those are dealt out next
			back = append(back, w)
		}
		writes = append(writes, back...)
	}
	if len(writes) == 0 {
		return nil
	}
	_, err := k.commit(ctx, lead, writes)
	return err
}
