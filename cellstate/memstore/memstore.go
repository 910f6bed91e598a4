// Package memstore is the cell's Store in one process: the reference that the laws in
// storetest are read against, and what tests and the simulator run on.
//
// It behaves as etcd does, down to revisions: one for each request that writes
// something, shared by all that the request writes; guards are judged on the state
// before the request; values are kept encoded, so nobody can change what is stored.
// It keeps all history unless it is told to compact.
package memstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Format is what meta/format holds in a fresh store.
const Format = "1"

// Store implements cellstate.Store, cellstate.Leaser, cellstate.Historian and cellstate.Lister. Any number
// of goroutines may use it.
type Store struct {
	faults faults

	mu        sync.Mutex
	now       state              // at the present revision
	oldest    state              // before the first of events
	events    []event            // one for each revision after oldest, ascending
	compacted cellstate.Revision // Changes after anything below is refused
	wake      chan struct{}      // closed and replaced when a watcher has something to do
	asked     int                // how often Progress was called
	leases    map[cellstate.Lease]*lease
	lastLease cellstate.Lease
}

// event is what one revision changed, fences included.
type event struct {
	revision cellstate.Revision
	changes  []change
}

// change is one key put or deleted.
type change struct {
	key     string
	value   []byte
	lease   cellstate.Lease
	deleted bool
}

// New is a fresh store: it holds meta/format and meta/incarnation.
func New(options ...Option) *Store {
	s := &Store{now: newState(), wake: make(chan struct{}), leases: map[cellstate.Lease]*lease{}}
	for _, o := range options {
		o(&s.faults)
	}
	s.now.revision = 1 // as of a fresh etcd
	s.oldest = s.now
	s.write([]change{
		{key: string(cellstate.MetaKey("format")), value: meta(Format)},
		{key: string(cellstate.MetaKey("incarnation")), value: meta(ulid.Make().String())},
	})
	return s
}

func meta(value string) []byte {
	b, _ := proto.Marshal(&ohmv1.Meta{Value: value}) // a string of ours: it cannot fail
	return b
}

// Limits: a request in memory may be as large as it likes.
func (s *Store) Limits() cellstate.Limits {
	return cellstate.Limits{Claims: 2 << 20, Nodes: 1 << 20, Batch: 1 << 20}
}

// Load returns the whole cell state at the present revision.
func (s *Store) Load(ctx context.Context) (*cellstate.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	now := s.now
	s.mu.Unlock()
	return now.snapshot()
}

// History returns the oldest state that is kept, and the present revision.
func (s *Store) History(ctx context.Context) (*cellstate.Snapshot, cellstate.Revision, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	oldest, present := s.oldest, s.now.revision
	s.mu.Unlock()
	snapshot, err := oldest.snapshot()
	return snapshot, present, err
}

// Compact forgets the history before a revision: Changes after an earlier one is
// refused with ErrCompacted, and ends where it is running that far behind.
func (s *Store) Compact(ctx context.Context, revision cellstate.Revision) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	revision = min(revision, s.now.revision)
	for len(s.events) > 0 && s.events[0].revision <= revision {
		s.oldest.apply(s.events[0])
		s.events = s.events[1:]
	}
	s.compacted = max(s.compacted, revision)
	s.wakeAll()
	return nil
}

// Size is the length of all records and their history.
func (s *Store) Size(ctx context.Context) (cellstate.Size, error) {
	if err := ctx.Err(); err != nil {
		return cellstate.Size{}, fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	for r := range s.now.scan("", "") {
		size += len(r.key) + len(r.value)
	}
	for _, e := range s.events {
		for _, c := range e.changes {
			size += len(c.key) + len(c.value)
		}
	}
	return cellstate.Size{InUse: int64(size), File: int64(size)}, nil
}

// PutRaw writes a key as a process of another release might: any key, any bytes, nothing
// compared.
func (s *Store) PutRaw(ctx context.Context, key cellstate.Key, value []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write([]change{{key: string(key), value: slices.Clone(value)}})
	return nil
}

var (
	_ cellstate.Store     = (*Store)(nil)
	_ cellstate.Leaser    = (*Store)(nil)
	_ cellstate.Historian = (*Store)(nil)
	_ cellstate.Lister    = (*Store)(nil)
)

// write applies changes at the next revision, if there are any that change something,
// and returns the revision of the store afterwards. The caller holds mu (or owns s alone).
func (s *Store) write(changes []change) cellstate.Revision {
	e := event{revision: s.now.revision + 1}
	if e.changes = s.now.effective(changes); len(e.changes) == 0 {
		return s.now.revision
	}
	for _, c := range e.changes {
		if l := s.leases[c.lease]; l != nil && !c.deleted {
			l.keys[c.key] = true
		}
	}
	s.now.apply(e)
	s.events = append(s.events, e)
	s.wakeAll()
	return e.revision
}

func (s *Store) wakeAll() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// side is where fences stand; nobody watches them.
const (
	side        = "!"
	fencePrefix = side + cellstate.SideFences
	scopePrefix = side + cellstate.SideScopes
)

func watched(key string) bool { return !strings.HasPrefix(key, side) }
