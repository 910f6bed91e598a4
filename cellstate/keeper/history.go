package keeper

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
)

// history remembers which revision was the present one when, to say up to which one the
// store's past may be forgotten.
type history struct {
	marks     []mark // by time
	compacted cellstate.Revision
	next      time.Time
}

type mark struct {
	at       time.Time
	revision cellstate.Revision
}

// note takes in the present revision.
func (h *history) note(now time.Time, revision cellstate.Revision) {
	h.marks = append(h.marks, mark{now, revision})
}

// older is the newest revision that was left behind for at least keep; 0 if there is
// none that is not forgotten already. Marks before it are dropped.
func (h *history) older(now time.Time, keep time.Duration) cellstate.Revision {
	n := 0
	for n < len(h.marks) && now.Sub(h.marks[n].at) >= keep {
		n++
	}
	if n == 0 || h.marks[n-1].revision <= h.compacted {
		return 0
	}
	last := h.marks[n-1].revision
	h.marks = h.marks[n:]
	return last
}

// keepFor is how much of the past is kept: all that Limits.History says, or, where the
// store takes more than it may, only what a mirror needs to load and catch up.
func (l Limits) keepFor(size int64) time.Duration {
	if size > l.HistoryBytes {
		return min(l.History, l.HistoryLeast)
	}
	return l.History
}

// forget compacts the store, if that is due.
func (k *Keeper) forget(ctx context.Context, h *history, revision cellstate.Revision, now time.Time) error {
	if now.Before(h.next) {
		return nil
	}
	h.next = now.Add(k.cfg.Limits.Compact)
	h.note(now, revision)
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	size, err := k.cfg.Store.Size(ctx)
	if err != nil {
		return err
	}
	k.storeBytes.Store(size)
	at := h.older(now, k.cfg.Limits.keepFor(size))
	if at == 0 {
		return nil
	}
	if err := k.cfg.Store.Compact(ctx, at); err != nil {
		return err
	}
	h.compacted = at
	k.log.Debug("compacted the store", zap.Int64("revision", int64(at)), zap.Int64("bytes", size))
	return nil
}
