package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// lease is guarded by Store.mu.
type lease struct {
	ttl   time.Duration
	timer *time.Timer
	keys  map[string]bool // that were put with it; some may stand under another by now
}

// Grant begins a lease.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (cellstate.Lease, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastLease++
	id := s.lastLease
	s.leases[id] = &lease{ttl: ttl, keys: map[string]bool{}, timer: time.AfterFunc(ttl, func() { s.end(id) })}
	return id, nil
}

// KeepAlive renews the lease three times in its life until ctx ends.
func (s *Store) KeepAlive(ctx context.Context, id cellstate.Lease) error {
	for {
		ttl, err := s.renew(id)
		if err != nil {
			return err
		}
		select {
		case <-time.After(ttl / 3):
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Store) renew(id cellstate.Lease) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		return 0, fmt.Errorf("lease %d: %w", id, cellstate.ErrNotFound)
	}
	l.timer.Reset(l.ttl)
	return l.ttl, nil
}

// Revoke ends the lease and removes its records.
func (s *Store) Revoke(ctx context.Context, id cellstate.Lease) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	if !s.end(id) {
		return fmt.Errorf("lease %d: %w", id, cellstate.ErrNotFound)
	}
	return nil
}

// end removes the lease and, in one revision, what still stands under it.
func (s *Store) end(id cellstate.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		return false
	}
	l.timer.Stop()
	delete(s.leases, id)
	var gone []change
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		if r := s.now.get(key); r != nil && r.lease == id {
			gone = append(gone, change{key: key, deleted: true})
		}
	}
	s.write(gone)
	return true
}
