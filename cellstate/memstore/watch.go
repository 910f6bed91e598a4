package memstore

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
)

// Changes yields what happened after a revision; see cellstate.Store.
func (s *Store) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	return func(yield func(cellstate.Batch, error) bool) {
		s.mu.Lock()
		asked := s.asked
		s.mu.Unlock()
		for {
			batch, wake, err := s.since(after, &asked)
			if err != nil {
				yield(cellstate.Batch{}, err)
				return
			}
			if wake != nil { // nothing to say
				select {
				case <-wake:
					continue
				case <-ctx.Done():
					yield(cellstate.Batch{}, context.Cause(ctx))
					return
				}
			}
			if s.faults.delay != nil {
				s.faults.delay(ctx, batch)
			}
			if err := context.Cause(ctx); err != nil {
				yield(cellstate.Batch{}, err)
				return
			}
			after = batch.Revision
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// since is what happened after a revision, or what to wait for if there is nothing to say.
func (s *Store) since(after cellstate.Revision, asked *int) (cellstate.Batch, <-chan struct{}, error) {
	s.mu.Lock()
	events, present, wake, progress := s.events, s.now.revision, s.wake, s.asked
	compacted := s.compacted
	s.mu.Unlock()
	if after < compacted {
		return cellstate.Batch{}, nil, fmt.Errorf("changes after %d: %w (%d)", after, cellstate.ErrCompacted, compacted)
	}
	from, _ := slices.BinarySearchFunc(events, after+1, func(e event, r cellstate.Revision) int { return int(e.revision - r) })
	if from == len(events) && progress == *asked {
		return cellstate.Batch{}, wake, nil
	}
	*asked = progress
	batch := cellstate.Batch{Revision: max(after, present)}
	var reader cellstate.Reader
	for _, e := range events[from:] {
		for _, c := range e.changes {
			if !watched(c.key) {
				continue
			}
			change, err := reader.Change(cellstate.Key(c.key), c.value, e.revision, c.deleted)
			if err != nil {
				return cellstate.Batch{}, nil, err
			}
			if s.faults.loseEvent == nil || !s.faults.loseEvent(change) {
				batch.Changes = append(batch.Changes, change)
			}
		}
	}
	return batch, nil, nil
}

// Progress makes every running Changes yield the present revision, with or without changes.
func (s *Store) Progress(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.wakeAll()
	return nil
}
