package mirror

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// pages notes how a store is listed.
type pages struct {
	*memstore.Store
	asked [][2]cellstate.Key
}

func (p *pages) List(ctx context.Context, at cellstate.Revision, from, end cellstate.Key, most int) ([]cellstate.KeyRevision, bool, error) {
	p.asked = append(p.asked, [2]cellstate.Key{from, end})
	return p.Store.List(ctx, at, from, end, most)
}

// A store counts a whole range for each answer, so from the second round on a large cell
// is asked for in ranges that are a page long, whatever comes and goes.
func TestRoundsCutTheCell(t *testing.T) {
	store := &pages{Store: memstore.New()}
	m := New(store, zap.NewNop())
	write := func(from, to int, remove bool) {
		t.Helper()
		now, err := store.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var w cellstate.Write
		for i := from; i < to; i++ {
			r := cellstate.Record{Key: cellstate.MetaKey(fmt.Sprintf("n/%04d", i)), Value: &ohmv1.Meta{}}
			if remove {
				r.Value, r.Read = nil, now.RecordRevision(r.Key)
			}
			w.Records = append(w.Records, r)
		}
		if _, err := store.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if now, err = store.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.loaded(now)
	}
	c := &checker{mirror: m, store: store, page: 10}
	round := func() (ranges int) {
		t.Helper()
		store.asked = nil
		pauses := 0
		n, err := c.round(t.Context(), func() bool { pauses++; return true })
		if err != nil || n != pauses || n != len(store.asked)+1 {
			t.Fatalf("%d pages, %d pauses, %d lists, error %v", n, pauses, len(store.asked), err)
		}
		for i, asked := range store.asked {
			if i > 0 && asked[0] == "" || i == 0 && asked[0] != "" {
				t.Errorf("page %d from %q", i, asked[0])
			}
			if i > 0 && store.asked[i-1][1] != asked[0] && store.asked[i-1][1] != asked[1] {
				t.Errorf("page %d from %q after one to %q", i, asked[0], store.asked[i-1][1])
			}
			if asked[1] != "" && (i == 0 || store.asked[i-1][1] != asked[1]) {
				ranges++
			}
		}
		if last := store.asked[len(store.asked)-1][1]; last != "" {
			t.Errorf("the last page ends at %q", last)
		}
		return ranges
	}
	write(0, 98, false) // with format and incarnation, 100
	for i, want := range []int{0, 9, 9} {
		if got := round(); got != want || len(store.asked) != 10 {
			t.Errorf("round %d: %d pages, %d of them cut", i, len(store.asked), got)
		}
	}
	write(5, 95, true)
	round()
	if round(); len(store.asked) > 2 {
		t.Errorf("%d pages for ten keys", len(store.asked))
	}
	write(5, 95, false)
	round()
	if got := round(); got < 8 || len(store.asked) > 12 {
		t.Errorf("grown: %d pages, %d cut", len(store.asked), got)
	}
}

// Whatever page a difference is on, the round finds it.
func TestRoundFindsEachDifference(t *testing.T) {
	store := memstore.New()
	var w cellstate.Write
	for i := range 40 {
		w.Records = append(w.Records, cellstate.Record{Key: cellstate.MetaKey(fmt.Sprintf("n/%04d", i)), Value: &ohmv1.Meta{}})
	}
	if _, err := store.Commit(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	stored, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := New(store, zap.NewNop())
	c := &checker{mirror: m, store: store, page: 7}
	round := func(s *cellstate.Snapshot) error {
		m.loaded(s)
		_, err := c.round(t.Context(), func() bool { return true })
		return err
	}
	if err := round(stored); err != nil {
		t.Fatal(err)
	}
	for i := range 41 { // 40 is not stored
		name := fmt.Sprintf("n/%04d", i)
		for what, change := range map[string]cellstate.Change{"of another revision": put(name, 1), "missing": gone(name, 1)} {
			if i == 40 && change.Deleted {
				continue
			}
			wrong, _, err := stored.Apply(cellstate.Batch{Revision: stored.Revision(), Changes: []cellstate.Change{change}})
			if err != nil {
				t.Fatal(err)
			}
			if err := round(wrong); !errors.Is(err, errDiffers) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
}
