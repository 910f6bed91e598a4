package keeper

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// history remembers which revision was the present one when, to say up to which one the
// store's past may be forgotten.
type history struct {
	marks     []mark // by time
	compacted cellstate.Revision
	next      time.Time

	defragmented time.Time
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

// Of the quota, in percent: what may be needed without any care, and from when on every
// look counts. The file grows beyond that before what is forgotten is free again.
const (
	roomy = 50
	tight = 60
)

// loadPerMiB is more than a mirror takes to load, of whatever size the store is: it must
// not find compacted what it has begun to read.
const loadPerMiB = 20 * time.Millisecond

// keepFor is how much of the past is kept: all that Limits.History says, or, where the
// store takes more than it may, only what a mirror needs to load and catch up; where it is
// about to be full, less than that.
func (l Limits) keepFor(size cellstate.Size) time.Duration {
	switch {
	case size.Needed() >= tight:
		load := time.Duration(size.InUse>>20) * loadPerMiB
		return min(l.History, l.HistoryLeast, max(l.Compact, load))
	case size.InUse > l.HistoryBytes, size.Needed() >= roomy:
		return min(l.History, l.HistoryLeast)
	}
	return l.History
}

// hurry is how much sooner than usual a store is looked at again that is about to be full.
const hurry = 5

// forgetAll compacts the store, again and again until ctx ends.
func (k *Keeper) forgetAll(ctx context.Context) {
	past := &history{}
	defer k.pressed.Store(0) // for the next term
	for ctx.Err() == nil {
		err := k.forget(ctx, past, k.cfg.Mirror.Snapshot().Revision(), time.Now())
		if err != nil && ctx.Err() == nil {
			k.log.Warn("the store is not compacted, trying again", zap.Error(err))
		}
		pause(ctx, time.Until(past.next))
	}
}

// forget compacts the store, if that is due.
func (k *Keeper) forget(ctx context.Context, h *history, revision cellstate.Revision, now time.Time) error {
	if now.Before(h.next) {
		return nil
	}
	h.next = now.Add(k.cfg.Limits.Compact)
	h.note(now, revision)
	asking, cancel := k.bounded(ctx)
	defer cancel()
	size, err := k.cfg.Store.Size(asking)
	if err != nil {
		return err
	}
	k.look(size)
	if k.pressed.Add(1); size.Needed() < tight {
		k.pressed.Store(0)
	}
	keep := k.cfg.Limits.keepFor(size)
	if keep < k.cfg.Limits.History {
		h.next = now.Add(k.cfg.Limits.Compact / hurry)
	}
	if at := h.older(now, keep); at > 0 {
		if err := k.cfg.Store.Compact(asking, at); err != nil {
			return err
		}
		h.compacted = at
		k.log.Debug("compacted the store", zap.Int64("revision", int64(at)), zap.Int64("bytes", size.InUse))
	}
	return k.defragment(ctx, h, size, now)
}

// look notes the store's size, and says so when it comes near its quota.
func (k *Keeper) look(size cellstate.Size) {
	was := k.size.Swap(&size)
	if was != nil && level(*was) >= level(size) {
		return
	}
	fields := []zap.Field{zap.Int("percent", size.Filled()), zap.Int64("file", size.File), zap.Int64("inUse", size.InUse), zap.Int64("quota", size.Quota)}
	switch level(size) {
	case cellstate.StoreNearlyFull:
		k.log.Error("the store is nearly full, and will take no writes then: see `ohm store doctor`", fields...)
	case cellstate.StoreFilling:
		k.log.Warn("the store fills: see `ohm store doctor`", fields...)
	}
}

// level is the highest of the alarm levels that a size has reached; 0: none.
func level(size cellstate.Size) int {
	switch filled := size.Filled(); {
	case filled >= cellstate.StoreNearlyFull:
		return cellstate.StoreNearlyFull
	case filled >= cellstate.StoreFilling:
		return cellstate.StoreFilling
	}
	return 0
}

// defragment makes a store of ours give back what is free in its file, if that pays.
// Nobody gets an answer from it meanwhile.
func (k *Keeper) defragment(ctx context.Context, h *history, size cellstate.Size, now time.Time) error {
	if k.cfg.Carer == nil || !k.cfg.Limits.pays(size, now.Sub(h.defragmented)) {
		return nil
	}
	h.defragmented = now
	return k.cfg.Carer.Defragment(ctx, func(step *ohmv1.StoreStep) {
		k.log.Info("defragmented the store, which answered nobody meanwhile", zap.String("member", step.GetMember()),
			zap.String("size", step.GetDetail()), zap.Duration("took", time.Duration(step.GetMilliseconds())*time.Millisecond))
	})
}

// pays says whether enough of a store's file is free, so long after the last time.
func (l Limits) pays(size cellstate.Size, since time.Duration) bool {
	free := size.File - size.InUse
	worth := l.DefragmentBytes
	if size.Quota > 0 {
		worth = min(worth, size.Quota/10)
	}
	switch {
	case free < worth:
		return false
	case level(size) > 0 && since >= l.HistoryLeast:
		return free >= size.File/4
	}
	return since >= l.Defragment && free >= size.File/2
}
