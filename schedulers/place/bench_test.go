package place_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// BenchmarkSchedule is one call of a policy with 64 tasks on 1,500 nodes, on a snapshot
// that differs from the last one by 64 placements; ns/decision is for each task.
func BenchmarkSchedule(b *testing.B) {
	for kind, fresh := range map[string]func() schedulers.Scheduler{
		"batch":   func() schedulers.Scheduler { return batch.New() },
		"service": func() schedulers.Scheduler { return service.New() },
		"ml":      func() schedulers.Scheduler { return ml.New() },
	} {
		for _, work := range []struct {
			name                string
			jobs, groups, count int
		}{
			{"64x1", 64, 1, 1},
			{"1x64", 1, 1, 64},
			{"8x8", 8, 2, 4},
		} {
			b.Run(kind+"/"+work.name, func(b *testing.B) {
				var cell strings.Builder
				for i := range 1500 {
					gpus := []string{"", "T4,T4", "V100,V100,V100,V100,V100,V100,V100,V100"}[i%3]
					fmt.Fprintf(&cell, "node n%04d cpu=96 memory=384Gi gpus=%s\n", i, gpus)
				}
				for j := range work.jobs {
					fmt.Fprintf(&cell, "job j%d kind=%s\n", j, kind)
					for g := range work.groups {
						i := j + g
						fmt.Fprintf(&cell, "group g%d count=%d cpu=%d memory=%dGi", g, work.count, 1+i%11, 1+i%7)
						fmt.Fprintf(&cell, "%s\n", []string{"", " gpus=1", fmt.Sprintf(" gpus=1 share=%dm", 100+i%5*150), ""}[i%4])
					}
				}
				in := placetest.Input(b, cell.String())
				policy := fresh()
				snapshots := []*cellstate.Snapshot{in.Snapshot, in.Snapshot}
				p, err := policy.Schedule(context.Background(), in)
				if err != nil {
					b.Fatal(err)
				}
				for _, txn := range p.Txns {
					snapshots[1] = placetest.Commit(b, snapshots[1], txn)
				}
				decisions := 0
				for i := 0; b.Loop(); i++ {
					in.Snapshot, in.Seed = snapshots[i%2], uint64(i)
					p, err := policy.Schedule(context.Background(), in)
					if err != nil || len(p.Unplaced) > 0 {
						b.Fatal(err, p.Unplaced)
					}
					decisions += 64
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(decisions), "ns/decision")
			})
		}
	}
}
