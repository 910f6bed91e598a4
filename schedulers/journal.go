package schedulers

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The journal's bounds: entries of one scheduler, and entries written in one request.
const (
	journalMost   = 1000
	journalAtOnce = 100
)

// ids makes ULIDs that grow with each call. Only the Runner's loop uses it.
type ids struct{ entropy io.Reader }

func newIDs() *ids { return &ids{ulid.Monotonic(rand.Reader, 0)} }

func (i *ids) next(now time.Time) string {
	id, err := ulid.New(ulid.Timestamp(now), i.entropy)
	if err != nil { // 2^80 ids in a millisecond, or no entropy: a fresh reader is as good
		return ulid.Make().String()
	}
	return id.String()
}

// journal collects the conflicts of this instance until they are written. What an
// instance cannot write it drops from the oldest: the journal is for people, and must not
// grow without end where the store is away.
type journal struct {
	unwritten []*ohmv1.Conflict
	lease     cellstate.Lease
	renew     time.Time // when entries get another lease
}

// ConflictRecord is a refused claim as the conflict journal keeps it; ids sort by time.
func ConflictRecord(id string, now time.Time, txn *cellstate.Txn, c *cellstate.Conflict) *ohmv1.Conflict {
	claim := &txn.Claims[c.Claim]
	rec := &ohmv1.Conflict{
		Id: id, Time: timestamppb.New(now), Scheduler: txn.Scheduler, Instance: txn.Instance, Txn: string(txn.ID),
		Slot: claim.Slot.Proto(), Node: string(claim.Node),
		Reason: string(c.Reason), Dimension: c.Dimension, Wanted: c.Wanted, Free: c.Free,
		SnapshotRevision: int64(txn.Snapshot), StoreRevision: int64(c.Revision),
	}
	if c.Winner != nil {
		rec.Winner = party(c.Winner)
	}
	for _, p := range c.Between {
		rec.Between = append(rec.Between, party(p))
	}
	return rec
}

func party(p *cellstate.Placement) *ohmv1.Party {
	return &ohmv1.Party{Scheduler: p.GetScheduler(), Txn: p.GetTxn(), Slot: p.GetSlot(), Revision: int64(p.Revision)}
}

func (j *journal) add(c *ohmv1.Conflict) {
	j.unwritten = append(j.unwritten, c)
	if over := len(j.unwritten) - journalMost; over > 0 {
		j.unwritten = j.unwritten[over:]
	}
}

// writeJournal writes what has been collected, and removes the oldest entries of this
// scheduler beyond the bound.
func (r *Runner) writeJournal(ctx context.Context, now time.Time) error {
	j := &r.journal
	var written cellstate.Revision
	for len(j.unwritten) > 0 {
		// A lease serves many entries, so each lives a little less than it could.
		if j.lease == 0 || !j.renew.After(now) {
			lease, err := r.Store.Grant(ctx, r.Times.Conflicts)
			if err != nil {
				return err
			}
			j.lease, j.renew = lease, now.Add(r.Times.Conflicts/8)
		}
		batch := j.unwritten[:min(len(j.unwritten), journalAtOnce)]
		var writes []cellstate.Write
		for _, c := range batch {
			writes = append(writes, cellstate.Write{Records: []cellstate.Record{
				{Key: cellstate.ConflictKey(r.Name, c.GetId()), Value: c, Lease: j.lease},
			}})
		}
		out, err := r.Store.Commit(ctx, writes...)
		if err != nil {
			j.lease = 0 // it may have been lost
			return err
		}
		written = out.Revision
		j.unwritten = j.unwritten[len(batch):]
	}
	s, err := r.Cell.WaitSnapshot(ctx, written)
	if err != nil {
		return err
	}
	return r.trimJournal(ctx, s)
}

// trimJournal removes the oldest entries beyond the bound, with one range; ids sort by
// time. Another instance may be at it too: then one of them is refused, and no harm done.
func (r *Runner) trimJournal(ctx context.Context, s *cellstate.Snapshot) error {
	var all []string
	for c := range s.Conflicts(r.Name) {
		all = append(all, c.GetId())
	}
	if len(all) <= journalMost {
		return nil
	}
	_, err := r.Store.Commit(ctx, cellstate.Write{Guards: []cellstate.Guard{{
		Key: cellstate.ConflictKey(r.Name, all[0]), End: cellstate.ConflictKey(r.Name, all[len(all)-journalMost]),
		Revision: s.Revision(), NotNewer: true, Delete: true,
	}}})
	return err
}
