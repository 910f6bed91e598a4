package memstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
)

// List says what stands in a range; see cellstate.Lister.
func (s *Store) List(ctx context.Context, at cellstate.Revision, from, end cellstate.Key, most int) (page []cellstate.KeyRevision, more bool, err error) {
	then, err := s.stateAt(ctx, at)
	if err != nil {
		return nil, false, err
	}
	for r := range then.scan(string(from), string(end)) {
		if !watched(r.key) {
			continue
		}
		if len(page) == most {
			return page, true, nil
		}
		page = append(page, cellstate.KeyRevision{Key: cellstate.Key(r.key), Revision: r.revision})
	}
	return page, false, nil
}

// Fences returns the fences of all nodes; see cellstate.Lister.
func (s *Store) Fences(ctx context.Context, at cellstate.Revision) (map[cellstate.NodeName]cellstate.Revision, error) {
	then, err := s.stateAt(ctx, at)
	if err != nil {
		return nil, err
	}
	fences := map[cellstate.NodeName]cellstate.Revision{}
	for r := range then.scan(fencePrefix, "") {
		name, ok := strings.CutPrefix(r.key, fencePrefix)
		if !ok {
			break
		}
		fences[cellstate.NodeName(name)] = r.revision
	}
	return fences, nil
}

// stateAt is the state at a revision.
func (s *Store) stateAt(ctx context.Context, at cellstate.Revision) (state, error) {
	if err := ctx.Err(); err != nil {
		return state{}, fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	now, then, events, compacted := s.now, s.oldest, s.events, s.compacted
	s.mu.Unlock()
	switch {
	case at == now.revision:
		return now, nil
	case at > now.revision:
		return state{}, fmt.Errorf("revision %d, the store is at %d: %w", at, now.revision, cellstate.ErrIncarnation)
	case at < compacted:
		return state{}, cellstate.ErrCompacted
	}
	for _, e := range events {
		if e.revision > at {
			break
		}
		then.apply(e)
	}
	return then, nil
}
