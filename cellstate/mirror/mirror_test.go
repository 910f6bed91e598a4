package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shaky is a store that can be away, cannot commit, or whose watch can break.
type shaky struct {
	cellstate.Store

	mu      sync.Mutex
	away    bool
	refuses bool // every write is left unapplied
	broken  chan struct{}
	commits int
}

func newShaky() *shaky { return &shaky{Store: memstore.New(), broken: make(chan struct{})} }

func (s *shaky) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// breakWatch ends the running watches.
func (s *shaky) breakWatch() {
	s.set(func() { close(s.broken); s.broken = make(chan struct{}) })
}

var errAway = fmt.Errorf("%w: away", cellstate.ErrUnreachable)

func (s *shaky) Load(ctx context.Context) (*cellstate.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	return s.Store.Load(ctx)
}

func (s *shaky) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	return func(yield func(cellstate.Batch, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		done := make(chan struct{})
		var ended sync.WaitGroup
		ended.Go(func() {
			select {
			case <-broken:
				cancel(errAway)
			case <-done:
			}
		})
		defer ended.Wait()
		defer close(done)
		s.Store.Changes(ctx, after)(yield)
	}
}

func (s *shaky) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	s.mu.Lock()
	refuses, away := s.refuses, s.away
	s.commits++
	s.mu.Unlock()
	switch {
	case away:
		return cellstate.Outcome{}, errAway
	case refuses:
		now, err := s.Store.Load(ctx)
		return cellstate.Outcome{Revision: now.Revision(), Applied: make([]cellstate.Revision, len(writes))}, err
	}
	return s.Store.Commit(ctx, writes...)
}

// start runs a mirror until the test ends.
func start(t *testing.T, store cellstate.Store) *mirror.Mirror { return startWith(t, store) }

func startWith(t *testing.T, store cellstate.Store, options ...mirror.Option) *mirror.Mirror {
	m := mirror.New(store, zap.NewNop(), options...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m
}

func wait(t *testing.T, m *mirror.Mirror, at cellstate.Revision) *cellstate.Snapshot {
	t.Helper()
	s, err := m.WaitSnapshot(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPublishesWholeSnapshots(t *testing.T) {
	store := newShaky()
	cell := celltest.New(t, store.Store)
	m := start(t, store)
	wait(t, m, 1)
	_, newer := m.Watch()
	at := cell.Node(celltest.Node{Name: "n1"})
	<-newer
	if s := wait(t, m, at); s.Node("n1") == nil || s.Revision() != at || m.Loads() != 1 {
		t.Errorf("revision %d, loads %d", s.Revision(), m.Loads())
	}
}

func TestKnowsNothingBeforeTheFirstLoad(t *testing.T) {
	m := mirror.New(newShaky(), zap.NewNop())
	if m.Snapshot() != nil {
		t.Error("a snapshot from nowhere")
	}
	synctest.Test(t, func(t *testing.T) {
		m := mirror.New(newShaky(), zap.NewNop())
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the test's patience ended"))
		defer cancel()
		if _, err := m.WaitSnapshot(ctx, 1); err == nil || err.Error() != "waiting for revision 1: the test's patience ended" {
			t.Errorf("error %v", err)
		}
	})
}

// A store that goes away and comes back: what was published stays readable, and the
// mirror goes on by itself.
func TestOutlivesItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShaky()
		cell := celltest.New(t, store.Store)
		at := cell.Node(celltest.Node{Name: "n1"})
		m := start(t, store)
		before := wait(t, m, at)
		synctest.Wait() // until the mirror watches
		store.set(func() { store.away = true })
		store.breakWatch()
		synctest.Wait()
		at = cell.Node(celltest.Node{Name: "n2"})
		time.Sleep(time.Minute)
		synctest.Wait()
		if m.Snapshot() != before {
			t.Error("the mirror shows something else while the store is away")
		}
		if _, err := m.Commit(t.Context(), celltest.Txn(before, cellstate.Incremental)); err != nil {
			t.Errorf("a commit of nothing: %v", err)
		}
		store.set(func() { store.away = false })
		if s := wait(t, m, at); s.Node("n2") == nil || m.Loads() != 2 {
			t.Errorf("nodes %v, loads %d", s.Node("n2"), m.Loads())
		}
	})
}

func TestResyncLoadsAgain(t *testing.T) {
	store := newShaky()
	m := start(t, store)
	wait(t, m, 1)
	m.Resync()
	for m.Loads() < 2 {
		_, newer := m.Watch()
		if m.Loads() >= 2 {
			break
		}
		<-newer
	}
}

// contended has a cell of one node and a job whose task fits.
func contended(t *testing.T) (*shaky, *mirror.Mirror, *cellstate.Txn) {
	store := newShaky()
	cell := celltest.New(t, store.Store)
	cell.Node(celltest.Node{Name: "n1"})
	name := cell.Job(celltest.Job{Name: "a", Count: 2, CPU: 1000})
	m := start(t, store)
	s := wait(t, m, cell.Snapshot().Revision())
	return store, m, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, name, "main", 0), "n1"))
}

// A claim that loses its race again and again is left alone: no commit, no conflict.
func TestCommitGivesUpWithoutAConflict(t *testing.T) {
	store, m, txn := contended(t)
	store.set(func() { store.refuses = true })
	r, err := m.Commit(t.Context(), txn)
	if err != nil || len(r) != 1 || r[0].Txn != txn || len(r[0].Committed)+len(r[0].Conflicts) != 0 || r[0].Revision != 0 {
		t.Errorf("results %+v, error %v", r, err)
	}
	if store.commits < 2 || store.commits > 20 {
		t.Errorf("%d requests", store.commits)
	}
	store.set(func() { store.refuses = false })
	if r, err = m.Commit(t.Context(), txn); err != nil || len(r[0].Committed) != 1 {
		t.Errorf("results %+v, error %v", r, err)
	}
}

func TestCommitPassesTheStoresError(t *testing.T) {
	store, m, txn := contended(t)
	store.set(func() { store.away = true })
	if _, err := m.Commit(t.Context(), txn); !errors.Is(err, cellstate.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
}

// A transaction decided on a snapshot that the mirror has not reached waits for it.
func TestCommitWaitsForTheTransactionsSnapshot(t *testing.T) {
	store, m, txn := contended(t)
	txn.Snapshot = celltest.New(t, store.Store).Node(celltest.Node{Name: "n2"}) + 1
	ctx, cancel := context.WithCancel(t.Context())
	committed := make(chan error, 1)
	go func() {
		_, err := m.Commit(ctx, txn)
		committed <- err
	}()
	wait(t, m, txn.Snapshot-1)
	celltest.New(t, store.Store).Node(celltest.Node{Name: "n3"})
	if err := <-committed; err != nil {
		t.Error(err)
	}
	if s := wait(t, m, txn.Snapshot+1); len(s.Node("n1").Placements()) != 1 {
		t.Errorf("node %v", s.Node("n1"))
	}
	cancel()
}

// A conflict and a commit of one call are told apart, transaction by transaction.
func TestCommitTellsEachTransaction(t *testing.T) {
	_, m, txn := contended(t)
	s := m.Snapshot()
	wrong := celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, celltest.Name("a"), "main", 1), "n9"))
	r, err := m.Commit(t.Context(), wrong, txn)
	if err != nil {
		t.Fatal(err)
	}
	if len(r[0].Conflicts) != 1 || r[0].Conflicts[0].Reason != cellstate.ReasonNodeGone || r[0].Revision != 0 {
		t.Errorf("first: %+v", r[0])
	}
	if len(r[1].Conflicts) != 0 || len(r[1].Committed) != 1 || r[1].Revision == 0 {
		t.Errorf("second: %+v", r[1])
	}
}

// A store that went back in time is loaded as it is now. Nobody waits for a revision of
// the time before, and what was decided then does not commit.
func TestStoreThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newShaky()
		before := celltest.New(t, store.Store)
		before.Node(celltest.Node{Name: "n1"})
		before.Job(celltest.Job{Name: "a", CPU: 100})
		for range 20 {
			before.Intent(&ohmv1.Intent{Node: "n1"})
		}
		m := start(t, store)
		old := wait(t, m, before.Snapshot().Revision())
		restored := memstore.New()
		after := celltest.New(t, restored)
		after.Node(celltest.Node{Name: "n2"})
		synctest.Wait()
		store.set(func() { store.Store = restored })
		store.breakWatch()
		time.Sleep(time.Second)
		synctest.Wait()
		now := m.Snapshot()
		if lines := celltest.Differ(now, after.Snapshot()); len(lines) > 0 || now.Revision() >= old.Revision() {
			t.Errorf("revision %d, before %d: %v", now.Revision(), old.Revision(), lines)
		}
		if _, err := m.WaitSnapshot(t.Context(), old.Revision()); !errors.Is(err, cellstate.ErrIncarnation) {
			t.Errorf("waiting for the time before: %v", err)
		}
		txn := celltest.Txn(old, cellstate.Incremental, celltest.Claim(old, celltest.Slot(old, celltest.Name("a"), "main", 0), "n1"))
		if _, err := m.Commit(t.Context(), txn); !errors.Is(err, cellstate.ErrIncarnation) {
			t.Errorf("a commit of the time before: %v", err)
		}
		if s := wait(t, m, after.Node(celltest.Node{Name: "n3"})); s.Node("n3") == nil {
			t.Error("the mirror does not follow")
		}
	})
}

// outrun is a store whose history is gone before a load is through.
type outrun struct {
	*shaky
	times []time.Time
}

func (o *outrun) Load(ctx context.Context) (*cellstate.Snapshot, error) {
	if o.times = append(o.times, time.Now()); len(o.times) <= 6 {
		return nil, cellstate.ErrCompacted
	}
	return o.shaky.Load(ctx)
}

// A load that its store's history outruns is tried again, less and less often.
func TestLoadThatIsOutrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outrun{shaky: newShaky()}
		m := start(t, store)
		wait(t, m, 1)
		if len(store.times) != 7 || m.Loads() != 1 {
			t.Fatalf("%d tries, %d loads", len(store.times), m.Loads())
		}
		for i := 2; i < len(store.times); i++ {
			if gap, before := store.times[i].Sub(store.times[i-1]), store.times[i-1].Sub(store.times[i-2]); gap < before || gap > 2*time.Second {
				t.Errorf("try %d came %v after the one before, that one after %v", i, gap, before)
			}
		}
	})
}

// While a load is under way nobody can make it begin again.
func TestResyncDuringALoad(t *testing.T) {
	store := newShaky()
	m := start(t, store)
	wait(t, m, 1)
	store.set(m.Resync) // the load waits for the lock
	for range 10 {
		m.Resync()
	}
	for m.Loads() < 2 {
		if _, newer := m.Watch(); m.Loads() < 2 {
			<-newer
		}
	}
	celltest.New(t, store.Store).Node(celltest.Node{Name: "n1"})
	if s := wait(t, m, celltest.New(t, store.Store).Snapshot().Revision()); s.Node("n1") == nil || m.Loads() != 2 {
		t.Errorf("%d loads", m.Loads())
	}
}

// What nobody tells is found within the time of a check, without anything happening.
func TestChecksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lose atomic.Bool
		store := memstore.New(memstore.LoseEvents(func(cellstate.Change) bool { return lose.Load() }))
		cell := celltest.New(t, store)
		cell.Node(celltest.Node{Name: "n1"})
		m := startWith(t, store, mirror.CheckEvery(time.Hour))
		wait(t, m, 1)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if m.Differed() != 0 || m.Loads() != 1 || m.Checked() < 3 || m.Checked() > 5 {
			t.Errorf("%d differences, %d loads, %d pages checked", m.Differed(), m.Loads(), m.Checked())
		}
		lose.Store(true)
		at := cell.Node(celltest.Node{Name: "n2"})
		if s := wait(t, m, at); s.Node("n2") != nil {
			t.Fatal("the event was not lost")
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if s := m.Snapshot(); s.Node("n2") == nil || m.Differed() != 1 || m.Loads() != 2 {
			t.Errorf("%d differences, %d loads", m.Differed(), m.Loads())
		}
	})
}
