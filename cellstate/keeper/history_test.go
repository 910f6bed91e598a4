package keeper

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

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
}

func TestHowMuchOfThePastIsKept(t *testing.T) {
	l := Limits{}.withDefaults()
	const gib = 1 << 30
	for _, row := range []struct {
		name string
		size cellstate.Size
		want time.Duration
	}{
		{"small", cellstate.Size{InUse: gib, File: 2 * gib}, l.History},
		{"large", cellstate.Size{InUse: gib + 1}, l.HistoryLeast},
		{"below half of a small quota", cellstate.Size{InUse: 7 << 20, Quota: 16 << 20}, l.History},
		{"half of a small quota", cellstate.Size{InUse: 8 << 20, Quota: 16 << 20}, l.HistoryLeast},
		{"near the quota", cellstate.Size{InUse: 10 << 20, Quota: 16 << 20}, l.Compact},
		{"near a larger quota", cellstate.Size{InUse: 1000 << 20, Quota: 1600 << 20}, 20 * time.Second},
		{"near a large quota", cellstate.Size{InUse: 10 << 30, Quota: 16 << 30}, l.HistoryLeast},
		{"a large file, mostly free", cellstate.Size{InUse: 1 << 20, File: 16 << 20, Quota: 16 << 20}, l.History},
	} {
		if got := l.keepFor(row.size); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// Each level of the quota is said once when it is reached, and stands in the metrics.
func TestTheStoreFills(t *testing.T) {
	core, said := observer.New(zap.WarnLevel)
	k := New(Config{Log: zap.New(core)})
	for _, step := range []struct {
		percent int64
		level   int
		says    string
	}{
		{69, 0, ""}, {70, 70, "the store fills"}, {84, 70, ""}, {85, 85, "nearly full"}, {99, 85, ""},
		{75, 70, ""}, {90, 85, "nearly full"}, {10, 0, ""}, {100, 85, "nearly full"},
	} {
		k.look(cellstate.Size{File: step.percent << 20, Quota: 100 << 20})
		got := ""
		if all := said.TakeAll(); len(all) > 0 {
			got = all[0].Message
		}
		if size := k.size.Load(); level(*size) != step.level || !strings.Contains(got, step.says) || (got == "") != (step.says == "") {
			t.Errorf("%d%%: level %d, said %q; want %d and %q", step.percent, level(*size), got, step.level, step.says)
		}
	}
}

func TestWhenDefragmentingPays(t *testing.T) {
	l := Limits{}.withDefaults()
	const mib = 1 << 20
	for _, row := range []struct {
		name  string
		size  cellstate.Size
		since time.Duration
		want  bool
	}{
		{"mostly free", cellstate.Size{InUse: 400 * mib, File: 1000 * mib, Quota: 8000 * mib}, 2 * time.Hour, true},
		{"not so soon again", cellstate.Size{InUse: 400 * mib, File: 1000 * mib, Quota: 8000 * mib}, 59 * time.Minute, false},
		{"mostly used", cellstate.Size{InUse: 600 * mib, File: 1000 * mib, Quota: 8000 * mib}, 2 * time.Hour, false},
		{"too little", cellstate.Size{InUse: 1 * mib, File: 200 * mib, Quota: 8000 * mib}, 2 * time.Hour, false},
		{"a part of a small quota", cellstate.Size{InUse: 1 * mib, File: 5 * mib, Quota: 16 * mib}, 2 * time.Hour, true},
		{"near the quota", cellstate.Size{InUse: 5000 * mib, File: 7000 * mib, Quota: 8000 * mib}, 2 * time.Minute, true},
		{"near the quota, but not free", cellstate.Size{InUse: 6500 * mib, File: 7000 * mib, Quota: 8000 * mib}, 2 * time.Minute, false},
		{"near the quota, a moment later", cellstate.Size{InUse: 5000 * mib, File: 7000 * mib, Quota: 8000 * mib}, time.Second, false},
		{"no quota known", cellstate.Size{InUse: 400 * mib, File: 1000 * mib}, 2 * time.Hour, true},
	} {
		if got := l.pays(row.size, row.since); got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
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
