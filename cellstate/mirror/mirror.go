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
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
)

// Mirror publishes the snapshots of one store. Run must be running for them to move.
type Mirror struct {
	store cellstate.Store
	log   *zap.Logger
	every time.Duration // in which the whole cell is checked once
	view  atomic.Pointer[view]
	ends  atomic.Pointer[context.CancelCauseFunc] // the following of changes, so that the next load begins; nil during a load
	past  atomic.Int64                            // the last revision seen of a store that went back in time since

	ledger *ledger

	checked, differs atomic.Int64
}

// view is a snapshot and the signal that there is a newer one.
type view struct {
	snapshot *cellstate.Snapshot // nil before the first load
	loads    int64               // up to this one
	newer    chan struct{}
}

// Option of New.
type Option func(*Mirror)

// CheckEvery sets the time in which the whole cell is compared with the store once, where
// the store is a Lister; 0: never.
func CheckEvery(d time.Duration) Option { return func(m *Mirror) { m.every = d } }

// New returns a mirror of store that knows nothing until Run has loaded.
func New(store cellstate.Store, log *zap.Logger, options ...Option) *Mirror {
	m := &Mirror{store: store, log: log, every: DefaultCheck, ledger: newLedger()}
	for _, o := range options {
		o(m)
	}
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
func (m *Mirror) Loads() int64 { return m.view.Load().loads }

// Checked counts the pages of keys that were compared with the store.
func (m *Mirror) Checked() int64 { return m.checked.Load() }

// Differed counts how often the snapshot was found not to be what stands in the store.
func (m *Mirror) Differed() int64 { return m.differs.Load() }

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
			if wait > progressAfter && int64(min) <= m.past.Load() {
				return nil, fmt.Errorf("revision %d is of the time before: %w", min, cellstate.ErrIncarnation)
			}
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

// Run follows the store until ctx ends, and checks the snapshot against it. It outlives
// a store that goes away and comes back; what it published last stays readable meanwhile.
func (m *Mirror) Run(ctx context.Context) error {
	var checking sync.WaitGroup
	defer checking.Wait()
	checking.Go(func() { m.check(ctx) })
	pause := newPause()
	for ctx.Err() == nil {
		err := m.follow(ctx, pause)
		switch {
		case ctx.Err() != nil:
			continue
		case errors.Is(err, cellstate.ErrCompacted), errors.Is(err, errResync), errors.Is(err, cellstate.ErrIncarnation):
			m.log.Info("loading the cell state again", zap.Error(err))
		default:
			m.log.Warn("the store does not answer, trying again", zap.Error(err))
		}
		pause.wait(ctx)
	}
	return nil
}

var errResync = errors.New("the snapshot disagrees with the store")

// follow loads once and applies changes until something is wrong.
func (m *Mirror) follow(ctx context.Context, pause *pause) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	snapshot, err := m.store.Load(ctx)
	if err != nil {
		return err
	}
	m.ends.Store(&cancel) // first: whoever sees the snapshot may find fault with it
	defer m.ends.Store(nil)
	m.loaded(snapshot)
	for batch, err := range m.store.Changes(ctx, snapshot.Revision()) {
		if err != nil {
			return because(ctx, err)
		}
		batch, doubt := sift(snapshot, batch)
		if doubt != nil {
			return fmt.Errorf("%w: %s changed at revision %d, which the snapshot at %d has not seen", errResync, doubt.Key, doubt.Revision, snapshot.Revision())
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
		m.publish(snapshot, 0)
		pause.reset() // not before: what is loaded over and over must not be loaded without a pause
	}
	return because(ctx, ctx.Err())
}

// loaded publishes a loaded snapshot.
func (m *Mirror) loaded(s *cellstate.Snapshot) {
	if was := m.Snapshot(); was != nil && (s.Revision() < was.Revision() || s.Incarnation() != was.Incarnation()) {
		m.past.Store(max(m.past.Load(), int64(was.Revision())))
		m.log.Warn("the store is another one, or went back in time",
			zap.Int64("revision", int64(s.Revision())), zap.Int64("before", int64(was.Revision())),
			zap.String("incarnation", s.Incarnation()), zap.String("incarnation_before", was.Incarnation()))
	}
	m.publish(s, 1)
}

// because is errResync where that is what ended ctx, and so led to err.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errResync) {
		return cause
	}
	return err
}

func (m *Mirror) publish(s *cellstate.Snapshot, loads int64) {
	old := m.view.Load() // only Run publishes
	m.view.Store(&view{snapshot: s, loads: old.loads + loads, newer: make(chan struct{})})
	close(old.newer)
}

// Resync makes the mirror load again: whoever calls it has seen that the snapshot is
// not what the store holds.
func (m *Mirror) Resync() { m.end(errResync) }

// end makes the mirror load again, unless it does already.
func (m *Mirror) end(cause error) {
	if cancel := m.ends.Swap(nil); cancel != nil {
		(*cancel)(cause)
	}
}

// reload makes the mirror load again and waits until it has.
func (m *Mirror) reload(ctx context.Context, cause error) error {
	before := m.Loads()
	m.end(fmt.Errorf("%w: %w", errResync, cause))
	for {
		v := m.view.Load()
		if v.loads > before {
			return nil
		}
		select {
		case <-v.newer:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a new load: %w", context.Cause(ctx))
		}
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
