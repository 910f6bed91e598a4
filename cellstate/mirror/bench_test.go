package mirror

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// BenchmarkCheckPage compares one page of a cell of 500,000 tasks, each with a placement
// and a status: in jobs of one task, which is the dearest, and of 100.
func BenchmarkCheckPage(b *testing.B) {
	for _, each := range []int{1, 100} {
		b.Run(fmt.Sprintf("tasks-per-job=%d", each), func(b *testing.B) {
			const tasks = 500_000
			var records []cellstate.Change
			var page []cellstate.KeyRevision
			for i := range tasks {
				slot := cellstate.Slot{Namespace: "default", Job: fmt.Sprintf("job-%06d", i/each), Group: "main", Index: i % each, Version: 1}
				node := fmt.Sprintf("node-%05d", i%5000)
				records = append(records,
					cellstate.Change{Key: slot.PlacementKey(), Value: &ohmv1.Placement{Slot: slot.Proto(), Attempt: 1, Node: node, Resources: &ohmv1.Resources{CpuMilli: 1}}, Revision: 7},
					cellstate.Change{Key: slot.StatusKey(), Value: &ohmv1.Status{Attempt: 1, Node: node}, Revision: 8})
				if i < checkPage/2 {
					page = append(page, cellstate.KeyRevision{Key: slot.PlacementKey(), Revision: 7}, cellstate.KeyRevision{Key: slot.StatusKey(), Revision: 8})
				}
			}
			s, err := cellstate.NewSnapshot(9, records, nil)
			if err != nil {
				b.Fatal(err)
			}
			slices.SortFunc(page, func(a, b cellstate.KeyRevision) int { return byKey(a, b.Key) })
			for b.Loop() {
				if err := differ(s, page, page[0].Key, page[len(page)-1].Key+"\x00"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
