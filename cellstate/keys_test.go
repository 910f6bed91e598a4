package cellstate_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
)

// TestTaskKeys compares the keys of a task's records with the form that they are defined by.
func TestTaskKeys(t *testing.T) {
	for _, slot := range []cellstate.Slot{
		{Namespace: "default", Job: "a", Group: "main", Version: 1},
		{Namespace: "ns", Job: "train", Group: "worker", Index: 1234, Version: math.MaxInt64},
		{Namespace: strings.Repeat("n", 63), Job: strings.Repeat("j", 63), Group: strings.Repeat("g", 63), Index: math.MaxInt32, Version: math.MinInt64},
		{Namespace: strings.Repeat("n", 500), Index: -1},
	} {
		prefix := fmt.Sprintf("tasks/%s/%s/%s/%d@%d/", slot.Namespace, slot.Job, slot.Group, slot.Index, slot.Version)
		if got := slot.PlacementKey(); string(got) != prefix+"placement" {
			t.Error(got)
		}
		if got := slot.StatusKey(); string(got) != prefix+"status" {
			t.Error(got)
		}
		for _, attempt := range []int{0, 1, 9, 10, 99, 100, 12345, 99_999, 100_000, 999_999, 1_000_000, math.MaxInt32} {
			if got, want := slot.EndedKey(attempt), fmt.Sprintf("%sended/%06d", prefix, attempt); string(got) != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if p := slot.PlacementKey().Parse(); p.Kind != cellstate.KindPlacement || p.Slot != slot {
			t.Errorf("parsed %+v", p)
		}
	}
}

func BenchmarkPlacementKey(b *testing.B) {
	slot := cellstate.Slot{Namespace: "default", Job: "job-00000017", Group: "main", Index: 17, Version: 1}
	b.ReportAllocs()
	for b.Loop() {
		_ = slot.PlacementKey()
	}
}
