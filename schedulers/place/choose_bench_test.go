package place_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// BenchmarkChoose is a round of five jobs of 100 equal tasks without GPUs, on nodes that
// are full to a random part, on a snapshot that differs from the last one by the
// placements of one round; ns/decision is for each task, all of the call included.
func BenchmarkChoose(b *testing.B) {
	for _, shape := range []struct {
		name, kind string
		policy     schedulers.Scheduler
		rules      func(*ohmv1.Group)
	}{
		{"pack", "batch", batch.New(), nil}, {"spread", "service", service.New(), nil},
		{"distinct", "service", service.New(), func(g *ohmv1.Group) { g.Distinct = "node" }},
		{"spread over zones", "service", service.New(), func(g *ohmv1.Group) { g.Spread = &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true} }},
		{"spread over nodes", "service", service.New(), func(g *ohmv1.Group) { g.Spread = &ohmv1.Spread{Over: "node", MaxSkew: 1, Required: true} }},
		{"together in a zone", "batch", batch.New(), func(g *ohmv1.Group) { g.Affinity = []*ohmv1.Affinity{{Within: "zone", Required: true}} }},
	} {
		for _, nodes := range []int{5_000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", shape.name, nodes), func(b *testing.B) {
				in := plainCell(b, shape.kind, nodes, 5, 100, shape.rules)
				snapshots := []*cellstate.Snapshot{in.Snapshot, in.Snapshot}
				p, err := shape.policy.Schedule(context.Background(), in)
				if err != nil {
					b.Fatal(err)
				}
				for _, txn := range p.Txns {
					snapshots[1] = placetest.Commit(b, snapshots[1], txn)
				}
				decisions := 0
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					in.Snapshot, in.Seed = snapshots[i%2], uint64(i)*0x9E3779B97F4A7C15
					p, err := shape.policy.Schedule(context.Background(), in)
					if err != nil || len(p.Unplaced) > 0 {
						b.Fatal(err, p.Unplaced)
					}
					decisions += 500
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(decisions), "ns/decision")
			})
		}
	}
}

// plainCell is a cell of nodes of 64 cores, each with one task of a random size, and some
// jobs of tasks of one core.
func plainCell(t placetest.TB, kind string, nodes, jobs, count int, rules func(*ohmv1.Group)) schedulers.Input {
	t.Helper()
	chance := rand.New(rand.NewPCG(1, 2))
	var cell []cellstate.Change
	put := func(key cellstate.Key, c cellstate.Change) {
		c.Key, c.Revision = key, 1
		cell = append(cell, c)
	}
	for i := range nodes {
		name := cellstate.NodeName(fmt.Sprintf("n%05d", i))
		put(cellstate.NodeKey(name), cellstate.Change{Value: &ohmv1.Node{Name: string(name), Capacity: &ohmv1.Resources{CpuMilli: 64_000, MemoryBytes: 1 << 40},
			Attributes: map[string]string{"zone": string(rune('a' + i%3))}}})
		put(cellstate.AliveKey(name), cellstate.Change{Value: &ohmv1.Alive{Node: string(name)}})
		slot := cellstate.Slot{Namespace: "default", Job: fmt.Sprintf("ballast-%d", i), Group: "main", Version: 1}
		put(slot.PlacementKey(), cellstate.Change{Value: &ohmv1.Placement{Slot: slot.Proto(), Attempt: 1, Node: string(name),
			Resources: &ohmv1.Resources{CpuMilli: 1000 * (10 + chance.Int64N(50)), MemoryBytes: 1 << 30}}})
	}
	var names []string
	for j := range jobs {
		spec := &ohmv1.JobSpec{Namespace: "default", Name: fmt.Sprintf("j%d", j), Kind: kind, Scheduler: kind, Precedence: proto.Int32(100), Groups: []*ohmv1.Group{{
			Name: "main", Count: int32(count), Resources: &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 1 << 30}}}}
		if rules != nil {
			rules(spec.Groups[0])
		}
		put(cellstate.JobKey(cellstate.JobNameOf(spec)), cellstate.Change{Value: &ohmv1.Job{Version: 1, Spec: spec}})
		names = append(names, spec.GetName())
	}
	s, err := cellstate.NewSnapshot(1, cell, nil)
	if err != nil {
		t.Fatal(err)
	}
	return schedulers.Input{Snapshot: s, Home: schedulers.Home{Index: 0, Of: 3}, Work: placetest.Work(s, names...)}
}
