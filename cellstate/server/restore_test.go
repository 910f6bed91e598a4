package server_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/server"
)

// backups is a store that is a restored one from some moment on.
type backups struct {
	*memstore.Store      // at first
	keepLeases      bool // a lease that is renewed stands in the restored store, too

	mu    sync.Mutex
	now   *memstore.Store
	other context.CancelFunc // ends the watch of the store before
	gone  chan struct{}      // closed when the store is restored
}

func (b *backups) current() *memstore.Store {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// restore puts another store in the place of the one before.
func (b *backups) restore(s *memstore.Store) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = s
	b.other()
	close(b.gone)
}

func (b *backups) Grant(ctx context.Context, ttl time.Duration) (cellstate.Lease, error) {
	return b.current().Grant(ctx, ttl)
}

func (b *backups) Revoke(ctx context.Context, l cellstate.Lease) error {
	return b.current().Revoke(ctx, l)
}

func (b *backups) KeepAlive(ctx context.Context, l cellstate.Lease) error {
	if now := b.current(); b.keepLeases || now != b.Store {
		return now.KeepAlive(ctx, l)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- b.Store.KeepAlive(ctx, l) }()
	select {
	case err := <-ended:
		return err
	case <-b.gone:
		cancel()
		<-ended
		return cellstate.ErrNotFound
	}
}

func (b *backups) Load(ctx context.Context) (*cellstate.Snapshot, error) {
	return b.current().Load(ctx)
}
func (b *backups) Progress(ctx context.Context) error { return b.current().Progress(ctx) }

func (b *backups) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	return b.current().Commit(ctx, writes...)
}

func (b *backups) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	ctx, cancel := context.WithCancelCause(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.other = func() { cancel(cellstate.ErrIncarnation) }
	return b.now.Changes(ctx, after)
}

// A session of the time before a restore ends, though its node's row may be the same and
// though the store is behind what the agent was told: the agent comes again and is told
// what is desired now. So does that of a node that the restored store does not know.
func TestSessionsEndWhenTheStoreIsRestored(t *testing.T) {
	for _, keepLeases := range []bool{false, true} {
		t.Run(fmt.Sprintf("the server's lease stays=%v", keepLeases), func(t *testing.T) { sessionsEnd(t, keepLeases) })
	}
}

func sessionsEnd(t *testing.T, keepLeases bool) {
	store := &backups{Store: memstore.New(), keepLeases: keepLeases, gone: make(chan struct{})}
	store.now = store.Store
	w := serve(t, store.Store, func(c *server.Config) { c.Store = store })
	restored := memstore.New()
	after := celltest.New(t, restored)
	after.Node(celltest.Node{Name: "n1", GPUs: 2})
	after.Job(celltest.Job{Name: "a", Count: 2})
	after.Place("a", 0, "n1")
	if keepLeases { // leases are numbered
		if _, err := restored.Grant(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}

	known, unknown := w.attach("n1", "one"), w.attach("n2", "two")
	w.submit(celltest.Job{Name: "a", Count: 2})
	w.cell.Place("a", 0, "n1")
	w.cell.Place("a", 1, "n1")
	known.until("two assignments", func() bool { return len(known.want) == 2 })
	if at := after.Snapshot().Revision(); at >= w.cell.Snapshot().Revision() {
		t.Fatalf("the restored store is at %d", at)
	}

	store.restore(restored)
	for _, a := range []*agent{known, unknown} {
		ended := make(chan error, 1)
		go func() { ended <- a.ended() }()
		select {
		case err := <-ended:
			wantCode(t, err, codes.Unavailable)
			if !strings.Contains(err.Error(), "restored") {
				t.Errorf("%s was told %v", a.node, err)
			}
		case <-time.After(patience):
			a.cancel()
			<-ended
			t.Fatalf("the session of %s goes on", a.node)
		}
	}
	again := w.attach("n1", "three")
	if len(again.want) != 1 || again.assignment("a/main/0") == nil || again.revision >= known.revision {
		t.Errorf("at revision %d it is told %v", again.revision, again.want)
	}
	after.Place("a", 1, "n1")
	again.until("what is placed from now on", func() bool { return again.assignment("a/main/1") != nil })
	w.attach("n2", "four")
	if s := after.Snapshot(); s.Node("n1").Alive.GetSession() != "three" || s.Node("n2").Alive.GetSession() != "four" {
		t.Errorf("%v, %v", s.Node("n1").Alive, s.Node("n2").Alive)
	}
}
