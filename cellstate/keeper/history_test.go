package keeper

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
)

func TestHistoryKeepsWhatItMust(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	h := &history{}
	for s := 0; s <= 100; s += 10 {
		h.note(at(s), cellstate.Revision(1000+s))
	}
	for _, step := range []struct {
		name string
		now  int
		keep time.Duration
		want cellstate.Revision
	}{
		{"all is younger", 100, 200 * time.Second, 0},
		{"the newest of those that are old enough", 100, 65 * time.Second, 1030},
		{"not twice", 100, 65 * time.Second, 0},
		{"later more", 115, 65 * time.Second, 1050},
		{"a shorter time", 115, 20 * time.Second, 1090},
	} {
		if got := h.older(at(step.now), step.keep); got != step.want {
			t.Errorf("%s: revision %d, want %d", step.name, got, step.want)
		}
	}
	l := Limits{}.withDefaults()
	if short, long := l.keepFor(l.HistoryBytes+1), l.keepFor(l.HistoryBytes); short != l.HistoryLeast || long != l.History {
		t.Errorf("kept for %v when full and %v else", short, long)
	}
}

// A store is compacted to what was the present when History ago, and no further.
func TestForgetCompactsTheStore(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	k := New(Config{Store: store, Server: "s", Log: zap.NewNop(), Limits: Limits{Compact: time.Second, History: time.Minute}})
	h, begin := &history{}, time.Unix(1000, 0)
	look := func(after time.Duration) cellstate.Revision {
		t.Helper()
		now := cell.Snapshot().Revision()
		if err := k.forget(t.Context(), h, now, begin.Add(after)); err != nil {
			t.Fatal(err)
		}
		return now
	}
	oldest := func() cellstate.Revision {
		t.Helper()
		s, _, err := store.History(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return s.Revision()
	}
	first := look(0)
	cell.Node(celltest.Node{Name: "n1", CPU: 1000})
	look(30 * time.Second)
	if got := oldest(); got > first {
		t.Fatalf("history begins at %d within the minute", got)
	}
	cell.Node(celltest.Node{Name: "n2", CPU: 1000})
	look(61 * time.Second)
	if got := oldest(); got != first {
		t.Fatalf("history begins at %d, want %d", got, first)
	}
}
