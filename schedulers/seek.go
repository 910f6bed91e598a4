package schedulers

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
)

// seekRoom begins a search for room, unless there is one or nothing starves. The slots
// are left alone until it is over.
func (r *Runner) seekRoom(ctx context.Context, now time.Time) (wake time.Time) {
	if r.seeking || r.within != nil || len(r.queue.starving) == 0 {
		return time.Time{}
	}
	all, wake := r.queue.starved(now, r.Store.Limits().Held())
	if len(all) == 0 {
		return wake
	}
	for _, u := range all {
		delete(r.queue.starving, u.job.Name)
		mode := cellstate.Incremental
		if gang(u.job) {
			mode = cellstate.Atomic
		}
		u.txn = &cellstate.Txn{ID: cellstate.TxnID(r.ids.next(now)), Scheduler: r.Name, Instance: r.Instance, Mode: mode}
		for _, n := range u.needs {
			r.queue.fly(n.Slot, true)
		}
	}
	// A decision may just have begun when the room is found, and the next one is within it.
	ttl := min(r.Times.Seek+3*r.deciding+2*time.Second, r.Times.Hold)
	from := r.chance.Uint64()
	r.seeking = true
	go func() { r.found <- r.seek(ctx, all, from, ttl) }()
	return wake
}

// seek looks for room on each newer snapshot, for a while, until some of it is held. After a
// first walk over all nodes it looks where something has changed, so that in a full cell it
// is there as early as anybody when room comes free.
func (r *Runner) seek(ctx context.Context, all []*starving, from uint64, ttl time.Duration) *held {
	h := &held{all: all}
	var err error
	if h.lease, err = r.Store.Grant(ctx, ttl); err != nil {
		r.noAnswer("a lease for holds", err)
		return h
	}
	end := time.NewTimer(r.Times.Seek)
	defer end.Stop()
	order := rand.New(rand.NewPCG(from, 0))
	var looked *cellstate.Snapshot // the last one, on which there was no room
	for {
		s, newer := r.Cell.Watch()
		began := time.Now()
		if looked == nil || s.RoomRevision() > looked.Revision() {
			var raced bool
			if raced, err = r.hold(ctx, s, looked, h, order.Uint64()); err != nil || len(h.placed) > 0 {
				break
			}
			if !raced {
				looked = s
			}
			sleep(ctx, 3*time.Since(began)) // it may be a walk over all nodes: a quarter of the time is enough for it
		}
		select {
		case <-newer:
			continue
		case <-end.C:
		case <-ctx.Done():
		}
		break
	}
	if err == nil && len(h.placed) > 0 {
		_, err = r.Cell.WaitSnapshot(ctx, h.at)
	}
	if err != nil && ctx.Err() == nil {
		r.noAnswer("placing holds", err)
	}
	if err != nil || len(h.placed) == 0 {
		h.placed = nil
		r.giveBack(ctx, h.lease) // also what may stand although no reply came
	}
	return h
}

// hold places the holds for which there is room on a snapshot, each whole or not at all;
// before, if given, is an older one on which there was none for any. It is raced where others came first.
func (r *Runner) hold(ctx context.Context, s, before *cellstate.Snapshot, h *held, from uint64) (raced bool, err error) {
	var wanted []*starving
	var writes []cellstate.Write
	taken := map[cellstate.NodeName]bool{} // a fence stands in one write of a request
	for _, u := range h.all {
		if !u.fit(s, before, taken, from, r.Store.Limits().Nodes) {
			continue
		}
		w, conflicts := cellstate.PlanHold(s, r.Clock(), u.txn, h.lease)
		if len(conflicts) > 0 {
			continue
		}
		for _, c := range u.txn.Claims {
			taken[c.Node] = true
		}
		wanted, writes = append(wanted, u), append(writes, w)
	}
	if len(writes) == 0 {
		return false, nil
	}
	out, err := r.Store.Commit(ctx, writes...)
	if err != nil {
		return false, err
	}
	for i, at := range out.Applied {
		if at > 0 {
			h.placed, h.at = append(h.placed, wanted[i]), max(h.at, at)
		}
	}
	return len(h.placed) < len(wanted), nil
}

// giveBack ends a lease of holds; that it may end by itself is why a failure is no matter.
func (r *Runner) giveBack(ctx context.Context, l cellstate.Lease) {
	if l == 0 {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Times.RetryMost)
	defer cancel()
	if err := r.Store.Revoke(last, l); err != nil && !errors.Is(err, cellstate.ErrNotFound) {
		r.Log.Debug("giving held room back", zap.Error(err))
	}
}
