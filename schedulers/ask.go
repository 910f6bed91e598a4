package schedulers

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// wants is what this instance has told the others of what it lacks under quotas.
type wants struct {
	next  time.Time                     // not again before
	asked map[cellstate.Scope]time.Time // when it last said how much
}

const (
	askEvery = 20 * time.Millisecond
	// amendEvery is the time between two puts of a share that change nothing but how much
	// more is wanted: each makes what is in flight compare it once more.
	amendEvery = 200 * time.Millisecond
)

// lack is what this instance's parked slots lack in one scope.
type lack struct {
	wanted, next cellstate.Amounts
	first        *entry // in the order of the queue
}

// lacking sums up what is parked for want of a share, what can never fit left out.
func (r *Runner) lacking(b *budget) map[cellstate.Scope]*lack {
	lacks := map[cellstate.Scope]*lack{}
	for _, e := range r.queue.active {
		if len(e.parked) == 0 {
			continue
		}
		for _, n := range e.needs {
			c := e.parked[n.Slot].cost
			if c == (cellstate.Amounts{}) || !b.possible(n.Slot.Namespace, c) {
				continue
			}
			for _, purse := range b.of(n.Slot.Namespace) {
				l := lacks[purse.scope]
				if l == nil {
					l = &lack{}
					lacks[purse.scope] = l
				}
				l.wanted = l.wanted.Plus(c)
				if l.first == nil || e != l.first && byUrgency(e, l.first) < 0 {
					l.first, l.next = e, c
				}
			}
			if gang(e.job) { // its slots have one cost together
				break
			}
		}
	}
	return lacks
}

// keepShares keeps this instance's shares as they should be, for their owner's part: it says
// what it lacks, and gives back what it does not use when others lack it. It returns when
// to look again, and whether it wrote: then there is a newer snapshot to go on with.
func (r *Runner) keepShares(ctx context.Context, s *cellstate.Snapshot, now time.Time) (wake time.Time, wrote bool) {
	b := r.queue.budget
	if b == nil {
		return time.Time{}, false
	}
	if r.wants.next.After(now) {
		return r.wants.next, false
	}
	r.wants.next = now.Add(askEvery)
	own := instanceRevision(s, r.Name, r.Instance)
	if own == 0 {
		return time.Time{}, false // nobody deals with who is not there
	}
	lacks := r.lacking(b)
	var writes []cellstate.Write
	for q := range s.Quotas() {
		if q.Record == nil {
			continue
		}
		record, read, later := r.shareRecord(s, q, lacks[q.Scope], now)
		wake = earlier(wake, later)
		if record == nil {
			continue
		}
		writes = append(writes, cellstate.Write{
			Guards:  []cellstate.Guard{{Key: cellstate.InstanceKey(r.Name, r.Instance), Revision: own}},
			Records: []cellstate.Record{{Key: cellstate.ShareKey(cellstate.Account{Scope: q.Scope, Spender: b.spender}), Value: record, Read: read}},
		})
	}
	if len(writes) == 0 {
		return wake, false
	}
	out, err := r.Store.Commit(ctx, writes...)
	if err == nil {
		_, err = r.Cell.WaitSnapshot(ctx, out.Revision)
	}
	if err != nil && ctx.Err() == nil {
		r.failed(ctx, "asking for a share of a quota", err)
	}
	return r.wants.next, true
}

// shareRecord is this instance's share as it should stand; nil if it stands so already, or
// near enough until later.
func (r *Runner) shareRecord(s *cellstate.Snapshot, q *cellstate.Quota, l *lack, now time.Time) (record *ohmv1.Share, read cellstate.Revision, later time.Time) {
	spender := r.spender()
	share := q.Share(spender)
	if share.Record == nil && l == nil {
		return nil, 0, time.Time{}
	}
	was := share.Record
	if was == nil {
		was = cellstate.NewShare(cellstate.Account{Scope: q.Scope, Spender: spender})
	}
	record = proto.CloneOf(was)
	record.Wanted, record.Next, record.Since = nil, nil, 0
	if l != nil {
		wanted := l.wanted.Plus(r.spending[q.Scope])
		if limit := q.Limit(); wanted.Short(limit, limit) >= 0 {
			for d, most := range limit {
				if most != cellstate.Unlimited {
					wanted[d] = min(wanted[d], most)
				}
			}
		}
		record.Wanted, record.Next = wanted.Proto(), l.next.Plus(r.spending[q.Scope]).Least(wanted).Proto()
		record.Since = was.GetSince()
		if record.Since == 0 {
			record.Since = int64(s.Revision())
		}
	}
	lowered := false
	if i := q.Number(spender); i >= 0 {
		if deal := s.Deal(q); deal.OthersLack(i) {
			keep := deal.Due[i].Most(share.Used.Plus(r.spending[q.Scope]))
			if least := share.Granted().Least(keep); least != share.Granted() {
				record.Granted, lowered = least.Proto(), true
			}
		}
	}
	if proto.Equal(record, share.Record) {
		return nil, 0, time.Time{}
	}
	if r.wants.asked == nil {
		r.wants.asked = map[cellstate.Scope]time.Time{}
	}
	if !lowered && share.Record != nil && (was.Wanted == nil) == (record.Wanted == nil) {
		if due := r.wants.asked[q.Scope].Add(amendEvery); due.After(now) {
			return nil, 0, due
		}
	}
	r.wants.asked[q.Scope] = now
	return record, share.Revision, time.Time{}
}
