package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ohmcell/ohm/cellstate"
)

// link is one side's connection to the store, which can misbehave: what it has not
// passed on, that side has not seen.
type link struct {
	cellstate.Store
	refused atomic.Int64 // writes that did not apply
	sent    atomic.Int64 // writes

	mu    sync.Mutex
	on    bool                        // an answer does not end the hold
	held  chan struct{}               // closed when the watch may go on; nil: it may
	lose  func(cellstate.Change) bool // changes that the watch does not show
	bend  func(cellstate.Batch) []cellstate.Batch
	drop  bool               // the reply to the next commit
	stale cellstate.Revision // the next watch begins here instead; 0: where asked
}

// hold keeps batches back until a commit was answered or release is called.
func (l *link) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = make(chan struct{})
}

// holdOn keeps batches back until release is called.
func (l *link) holdOn() {
	l.hold()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = true
}

func (l *link) release() { l.goOn(true) }

func (l *link) goOn(always bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil && (always || !l.on) {
		close(l.held)
		l.held, l.on = nil, false
	}
}

// loses sets what the watch does not show.
func (l *link) loses(lose func(cellstate.Change) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = lose
}

// dropReply loses the reply to the next commit.
func (l *link) dropReply() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = true
}

func (l *link) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	l.mu.Lock()
	if l.stale > 0 {
		after, l.stale = l.stale, 0
	}
	l.mu.Unlock()
	return func(yield func(cellstate.Batch, error) bool) {
		for batch, err := range l.Store.Changes(ctx, after) {
			l.mu.Lock()
			held, lose, bend := l.held, l.lose, l.bend
			l.mu.Unlock()
			if held != nil {
				select {
				case <-held:
				case <-ctx.Done():
				}
			}
			if lose != nil {
				batch.Changes = slices.DeleteFunc(batch.Changes, lose)
			}
			batches := []cellstate.Batch{batch}
			if bend != nil && err == nil {
				batches = bend(batch)
			}
			for _, b := range batches {
				if !yield(b, err) {
					return
				}
			}
		}
	}
}

// bends sets what the watch makes of each batch.
func (l *link) bends(bend func(cellstate.Batch) []cellstate.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bend = bend
}

func (l *link) List(ctx context.Context, at cellstate.Revision, from, end cellstate.Key, most int) ([]cellstate.KeyRevision, bool, error) {
	return l.Store.(cellstate.Lister).List(ctx, at, from, end, most)
}

func (l *link) Fences(ctx context.Context, at cellstate.Revision) (map[cellstate.NodeName]cellstate.Revision, error) {
	return l.Store.(cellstate.Lister).Fences(ctx, at)
}

func (l *link) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	defer l.goOn(false)
	out, err := l.Store.Commit(ctx, writes...)
	l.sent.Add(int64(len(writes)))
	for _, at := range out.Applied {
		if at == 0 && err == nil {
			l.refused.Add(1)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drop && err == nil {
		l.drop = false
		return cellstate.Outcome{}, fmt.Errorf("%w: %w", cellstate.ErrUnknown, errors.New("the reply was lost"))
	}
	return out, err
}
