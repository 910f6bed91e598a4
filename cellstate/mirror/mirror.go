// Package mirror follows a store: it publishes the latest snapshot of the cell through
// an atomic pointer, waits for a revision on request, and loads again by itself when
// history is compacted, an event was lost or the store was restored. On top of that it
// commits transactions, telling real conflicts from a fence that merely moved.
//
// Every process that decides on the cell state has a mirror of its own.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
)

// Mirror publishes the snapshots of one store. Run must be running for them to move.
type Mirror struct {
	store  cellstate.Store
	log    *zap.Logger
	view   atomic.Pointer[view]
	resync atomic.Pointer[context.CancelCauseFunc] // ends what follow does, so that it loads again
	loads  atomic.Int64
}

// view is a snapshot and the signal that there is a newer one.
type view struct {
	snapshot *cellstate.Snapshot // nil before the first load
	newer    chan struct{}
}

// New returns a mirror of store that knows nothing until Run has loaded.
func New(store cellstate.Store, log *zap.Logger) *Mirror {
	m := &Mirror{store: store, log: log}
	m.view.Store(&view{newer: make(chan struct{})})
	return m
}

// Snapshot is the latest snapshot; nil before the first load.
func (m *Mirror) Snapshot() *cellstate.Snapshot { return m.view.Load().snapshot }

// Watch is the latest snapshot and a channel that is closed once there is a newer one.
func (m *Mirror) Watch() (*cellstate.Snapshot, <-chan struct{}) {
	v := m.view.Load()
	return v.snapshot, v.newer
}

// Loads counts how often the whole state was loaded.
func (m *Mirror) Loads() int64 { return m.loads.Load() }

// progressAfter is how long WaitSnapshot waits for an event before it asks the store
// for its present revision: writes to keys that nobody watches bring no event.
const progressAfter = 2 * time.Millisecond

// WaitSnapshot waits for a snapshot that is at least as new as min.
func (m *Mirror) WaitSnapshot(ctx context.Context, min cellstate.Revision) (*cellstate.Snapshot, error) {
	wait := progressAfter
	for {
		snapshot, newer := m.Watch()
		if snapshot != nil && snapshot.Revision() >= min {
			return snapshot, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-newer:
		case <-timer.C:
			// An error here is the watch's too; Run deals with it.
			_ = m.store.Progress(ctx)
			wait = time.Second
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("waiting for revision %d: %w", min, context.Cause(ctx))
		}
		timer.Stop()
	}
}

// Run follows the store until ctx ends. It outlives a store that goes away and comes
// back; what it published last stays readable meanwhile.
func (m *Mirror) Run(ctx context.Context) error {
	pause := newPause()
	for ctx.Err() == nil {
		err := m.follow(ctx, pause)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, cellstate.ErrCompacted), errors.Is(err, errResync), errors.Is(err, cellstate.ErrIncarnation):
			m.log.Info("loading the cell state again", zap.Error(err))
		default:
			m.log.Warn("the store does not answer, trying again", zap.Error(err))
			pause.wait(ctx)
		}
	}
	return nil
}

var errResync = errors.New("the snapshot disagrees with the store")

// follow loads once and applies changes until something is wrong.
func (m *Mirror) follow(ctx context.Context, pause *pause) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.resync.Store(&cancel)
	snapshot, err := m.store.Load(ctx)
	if err != nil {
		return because(ctx, err)
	}
	m.loads.Add(1)
	pause.reset()
	m.publish(snapshot)
	for batch, err := range m.store.Changes(ctx, snapshot.Revision()) {
		if err != nil {
			return because(ctx, err)
		}
		next, gaps, err := snapshot.Apply(batch)
		if err != nil {
			return err
		}
		if len(gaps) > 0 {
			return fmt.Errorf("%w: an event of node %s was lost", errResync, gaps[0])
		}
		if was := snapshot.Incarnation(); was != "" && next.Incarnation() != was {
			return cellstate.ErrIncarnation
		}
		snapshot = next
		m.publish(snapshot)
	}
	return because(ctx, ctx.Err())
}

// because is errResync where that is what ended ctx, and so led to err.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errResync) {
		return cause
	}
	return err
}

func (m *Mirror) publish(s *cellstate.Snapshot) {
	old := m.view.Swap(&view{snapshot: s, newer: make(chan struct{})})
	close(old.newer)
}

// Resync makes the mirror load again: whoever calls it has seen that the snapshot is
// not what the store holds.
func (m *Mirror) Resync() {
	if cancel := m.resync.Load(); cancel != nil {
		(*cancel)(errResync)
	}
}

// pause grows from 50 ms to 2 s.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{next: 50 * time.Millisecond} }

func (p *pause) reset() { p.next = 50 * time.Millisecond }

func (p *pause) wait(ctx context.Context) {
	select {
	case <-time.After(p.next):
	case <-ctx.Done():
	}
	p.next = min(2*p.next, 2*time.Second)
}
