package keeper

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// leaderMeta is the leadership's name among the meta records.
const leaderMeta = "leader/keeper"

// term is one leadership: take a lease, wait for the leadership, keep house, give it
// back. An error says why it ended.
func (k *Keeper) term(ctx context.Context) error {
	snapshot, newer := k.cfg.Mirror.Watch()
	for snapshot == nil || !k.free(snapshot) { // no lease while there is nothing to be had
		select {
		case <-newer:
		case <-ctx.Done():
			return nil
		}
		snapshot, newer = k.cfg.Mirror.Watch()
	}
	asking, cancel := k.bounded(ctx)
	lease, err := k.cfg.Store.Grant(asking, k.cfg.Limits.Lease)
	cancel()
	if err != nil {
		return err
	}
	defer func() { // a successor need not wait for the lease's end
		last, cancel := k.bounded(context.WithoutCancel(ctx))
		defer cancel()
		_ = k.cfg.Store.Revoke(last, lease)
	}()
	group, ctx := errgroup.WithContext(ctx)
	ctx, over := context.WithCancel(ctx)
	group.Go(func() error { return k.cfg.Store.KeepAlive(ctx, lease) })
	group.Go(func() error {
		defer over()
		lead, err := k.acquire(ctx, lease, snapshot)
		if err != nil || lead.Revision == 0 {
			return err
		}
		k.log.Info("leading", zap.Int64("revision", int64(lead.Revision)))
		k.leads.Store(true)
		defer k.leads.Store(false)
		return k.keep(ctx, lead)
	})
	return group.Wait()
}

// free says whether the leadership may be taken: nobody has it, or a process of this
// server's name, which is this one's predecessor.
func (k *Keeper) free(s *cellstate.Snapshot) bool {
	leader, _ := s.Meta(leaderMeta)
	return leader == nil || leader.GetValue() == k.cfg.Server
}

// acquire writes the leadership key over what the snapshot has there, and returns the
// guard that every write of this term carries; with revision 0 if another was faster.
func (k *Keeper) acquire(ctx context.Context, lease cellstate.Lease, s *cellstate.Snapshot) (cellstate.Guard, error) {
	ctx, cancel := k.bounded(ctx)
	defer cancel()
	guard := cellstate.Guard{Key: cellstate.MetaKey(leaderMeta)}
	for k.free(s) {
		_, read := s.Meta(leaderMeta)
		out, err := k.cfg.Store.Commit(ctx, cellstate.Write{Records: []cellstate.Record{{
			Key: guard.Key, Read: read, Lease: lease,
			Value: &ohmv1.Meta{Value: k.cfg.Server, Time: timestamppb.Now()},
		}}})
		if err != nil {
			return guard, err
		}
		s, err = k.cfg.Mirror.WaitSnapshot(ctx, out.Revision)
		if err != nil || out.Applied[0] > 0 {
			guard.Revision = out.Applied[0]
			return guard, err
		}
	}
	return guard, nil
}

// keepEvery is the least time between two looks at the cell.
const keepEvery = 20 * time.Millisecond

// keep keeps house until ctx ends or another leads.
func (k *Keeper) keep(ctx context.Context, lead cellstate.Guard) error {
	done := newMarker()
	rolling := &rollouts{due: map[cellstate.JobName]time.Time{}}
	liveness := newLiveness(k.cfg.Limits, time.Now())
	var swept, looked time.Time
	// Beside the rest and whatever comes of it: a store that is full takes no writes, but forgets.
	ctx, over := context.WithCancel(ctx)
	var forgetting sync.WaitGroup
	forgetting.Go(func() { k.forgetAll(ctx) })
	defer forgetting.Wait()
	defer over()
	for {
		start := time.Now()
		snapshot, newer := k.cfg.Mirror.Watch()
		if _, at := snapshot.Meta(leaderMeta); at != lead.Revision && snapshot.Revision() >= lead.Revision {
			return errDeposed
		}
		wake, err := k.mark(ctx, lead, done, snapshot, start)
		if err == nil {
			err = k.lose(ctx, lead, liveness, snapshot, start)
		}
		var deadline time.Time
		if err == nil {
			deadline, err = k.drain(ctx, lead, snapshot, start)
		}
		if err == nil {
			err = k.deal(ctx, lead, snapshot)
		}
		var step time.Time
		if err == nil {
			step, err = k.roll(ctx, lead, rolling, snapshot, start)
		}
		var average time.Time
		if err == nil {
			average, err = k.average(ctx, lead, &looked, snapshot, start)
		}
		squeezing := k.pressed.Load() > patience
		sweep := k.cfg.Limits.squeezed(squeezing, snapshot)
		if err == nil && start.Sub(swept) >= sweep.Sweep {
			err, swept = k.sweep(ctx, lead, snapshot, start, sweep), start
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			k.log.Warn("the store does not answer, trying again", zap.Error(err))
			if pause(ctx, retry); errors.Is(err, cellstate.ErrNoSpace) { // until somebody has done something
				pause(ctx, k.cfg.Limits.Compact/hurry)
			}
			continue
		}
		rest := 4 * time.Since(start)
		if squeezing { // others would wait longer
			rest = 0
		}
		pause(ctx, max(keepEvery, rest))
		until := earliest(wake, liveness.wake(), deadline, step, average, swept.Add(sweep.Sweep))
		timer := time.NewTimer(time.Until(until))
		select {
		case <-newer:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		timer.Stop()
	}
}

// earliest is the first of some times; a zero one means never.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}
