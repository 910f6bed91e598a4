package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/storetest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dropping loses a reply on request.
type dropping struct {
	*memstore.Store
	next *atomic.Bool
}

func (d dropping) DropReply() { d.next.Store(true) }

func TestLaws(t *testing.T) {
	storetest.Run(t, func(*testing.T) cellstate.Store {
		next := new(atomic.Bool)
		store := memstore.New(memstore.DropReplies(func([]cellstate.Write) bool { return next.Swap(false) }))
		return dropping{store, next}
	})
}

func meta(name string) cellstate.Record {
	return cellstate.Record{Key: cellstate.MetaKey(name), Value: &ohmv1.Meta{Value: name}}
}

func TestFreshStore(t *testing.T) {
	s := celltest.New(t, memstore.New()).Snapshot()
	if format, _ := s.Meta("format"); format.GetValue() != memstore.Format {
		t.Errorf("format %v", format)
	}
	if other := celltest.New(t, memstore.New()).Snapshot(); s.Incarnation() == "" || other.Incarnation() == s.Incarnation() {
		t.Errorf("incarnations %q and %q", s.Incarnation(), other.Incarnation())
	}
}

// A request has one revision, and none if it writes nothing.
func TestRevisions(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1"})
	before := cell.Snapshot()
	never := cellstate.Guard{Key: cellstate.MetaKey("nothing"), Revision: 1}
	gone := cellstate.Guard{Key: cellstate.MetaKey("nothing"), Delete: true}
	for _, c := range []struct {
		name    string
		writes  []cellstate.Write
		grows   cellstate.Revision
		applied []bool
	}{
		{"no write", nil, 0, nil},
		{"none applies", []cellstate.Write{{Guards: []cellstate.Guard{never}, Records: []cellstate.Record{meta("a")}}}, 0, []bool{false}},
		{"a guard that holds, nothing to write", []cellstate.Write{{Guards: []cellstate.Guard{gone}}}, 0, []bool{true}},
		{"two apply", []cellstate.Write{{Records: []cellstate.Record{meta("a"), meta("b")}}, {Records: []cellstate.Record{meta("c")}}}, 1, []bool{true, true}},
		{"one of two applies", []cellstate.Write{{Records: []cellstate.Record{meta("a")}}, {Records: []cellstate.Record{meta("d")}}}, 1, []bool{false, true}},
		{"a fence alone", []cellstate.Write{{Fences: []cellstate.FenceBump{{Node: "n1", Compared: before.Node("n1").Fence}}}}, 1, []bool{true}},
	} {
		was := cell.Snapshot().Revision()
		out, err := store.Commit(t.Context(), c.writes...)
		if err != nil || out.Revision != was+c.grows {
			t.Errorf("%s: revision %d after %d, error %v", c.name, out.Revision, was, err)
		}
		for i, want := range c.applied {
			if got := out.Applied[i]; (got != 0) != want || (want && got != out.Revision) {
				t.Errorf("%s: write %d applied at %d, revision %d", c.name, i, got, out.Revision)
			}
		}
	}
	// What nobody watches moves the revision and shows no change.
	for batch, err := range store.Changes(t.Context(), cell.Snapshot().Revision()-1) {
		if err != nil || len(batch.Changes) != 0 || batch.Revision != cell.Snapshot().Revision() {
			t.Errorf("batch %v, error %v", batch, err)
		}
		break
	}
}

func TestAKeyWrittenAndDeletedByRange(t *testing.T) {
	store := memstore.New()
	w := cellstate.Write{
		Guards:  []cellstate.Guard{{Key: "meta/", End: "meta0", Revision: 99, NotNewer: true, Delete: true}},
		Records: []cellstate.Record{meta("a")},
	}
	if out, err := store.Commit(t.Context(), w); err == nil {
		t.Errorf("outcome %+v", out)
	}
}

// Leases end after their ttl, unless they are kept alive.
func TestLeaseTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		cell := celltest.New(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		var leases [2]cellstate.Lease
		for i := range leases {
			var err error
			if leases[i], err = store.Grant(ctx, 10*time.Second); err != nil {
				t.Fatal(err)
			}
			rec := meta(fmt.Sprint("lease", i))
			rec.Lease = leases[i]
			cell.Put(rec)
		}
		kept := make(chan error, 1)
		go func() { kept <- store.KeepAlive(ctx, leases[1]) }()
		stands := func(i int) bool {
			m, _ := cell.Snapshot().Meta(fmt.Sprint("lease", i))
			return m != nil
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if !stands(0) || !stands(1) {
			t.Error("a lease ended early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if stands(0) || !stands(1) {
			t.Errorf("after 11 s: not kept alive %v, kept alive %v", stands(0), stands(1))
		}
		if err := store.KeepAlive(ctx, leases[0]); !errors.Is(err, cellstate.ErrNotFound) {
			t.Errorf("keeping an ended lease alive: %v", err)
		}
		cancel()
		if err := <-kept; err != nil {
			t.Error(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if stands(1) {
			t.Error("the lease outlives its keeper")
		}
	})
}

func TestFaults(t *testing.T) {
	var delayed []cellstate.Revision
	store := memstore.New(
		memstore.LoseEvents(func(c cellstate.Change) bool { return c.Key == cellstate.MetaKey("lost") }),
		memstore.DropReplies(func(w []cellstate.Write) bool { return w[0].Records[0].Key == cellstate.MetaKey("silent") }),
		memstore.Delay(func(_ context.Context, b cellstate.Batch) { delayed = append(delayed, b.Revision) }),
	)
	cell := celltest.New(t, store)
	start := cell.Snapshot().Revision()
	cell.Put(meta("lost"), meta("seen"))
	if _, err := store.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{meta("silent")}}); !errors.Is(err, cellstate.ErrUnknown) {
		t.Errorf("error %v", err)
	}
	if m, _ := cell.Snapshot().Meta("silent"); m == nil {
		t.Error("the request whose reply was dropped was not applied")
	}
	for batch, err := range store.Changes(t.Context(), start) {
		if err != nil || len(batch.Changes) != 2 || batch.Changes[0].Key != cellstate.MetaKey("seen") || len(delayed) != 1 {
			t.Errorf("batch %v, delayed %v, error %v", batch, delayed, err)
		}
		break
	}
}

func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := memstore.New()
	for name, call := range map[string]func() error{
		"load":     func() error { _, err := store.Load(ctx); return err },
		"commit":   func() error { _, err := store.Commit(ctx); return err },
		"progress": func() error { return store.Progress(ctx) },
		"history":  func() error { _, _, err := store.History(ctx); return err },
		"grant":    func() error { _, err := store.Grant(ctx, time.Second); return err },
	} {
		if err := call(); !errors.Is(err, cellstate.ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
