package cellstate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// steadyCell is a cell in steady state: as many jobs go as come, each with one task on
// each of as many nodes.
type steadyCell struct {
	nodes, perJob int
	chance        *rand.Rand
	snapshot      *cellstate.Snapshot
	live          []steadyJob
	next          int
}

type steadyJob struct {
	name  cellstate.JobName
	slots []cellstate.Slot
}

// newSteadyCell has so many nodes with so many tasks each.
func newSteadyCell(tb testing.TB, nodes, perNode, perJob int) *steadyCell {
	c := &steadyCell{nodes: nodes, perJob: perJob, chance: rand.New(rand.NewPCG(1, 2))}
	var records []cellstate.Change
	for i := range nodes {
		n := celltest.Node{Name: string(node(i)), CPU: 64_000}.Proto()
		records = append(records, cellstate.Change{Key: cellstate.NodeKey(node(i)), Value: n, Revision: 1})
	}
	s, err := cellstate.NewSnapshot(1, records, nil)
	if err != nil {
		tb.Fatal(err)
	}
	c.snapshot = s
	for range nodes * perNode / perJob {
		c.apply(tb, c.submit())
	}
	return c
}

func (c *steadyCell) apply(tb testing.TB, changes []cellstate.Change) {
	at := c.snapshot.Revision() + 1
	for i := range changes {
		changes[i].Revision = at
	}
	s, gaps, err := c.snapshot.Apply(cellstate.Batch{Revision: at, Changes: changes})
	if err != nil || len(gaps) > 0 {
		tb.Fatal(gaps, err)
	}
	c.snapshot = s
}

// submit are the changes of a job that comes and is placed whole.
func (c *steadyCell) submit() []cellstate.Change {
	j := steadyJob{name: cellstate.JobName{Namespace: "default", Name: fmt.Sprintf("steady-%06d", c.next)}}
	c.next++
	record := &ohmv1.Job{Version: 1, Spec: &ohmv1.JobSpec{Namespace: "default", Name: j.name.Name, Kind: "batch", Scheduler: "batch",
		Groups: []*ohmv1.Group{{Name: "main", Count: int32(c.perJob)}}}}
	changes := []cellstate.Change{{Key: cellstate.JobKey(j.name), Value: record}}
	for i, n := range c.chance.Perm(c.nodes)[:c.perJob] {
		slot := cellstate.Slot{Namespace: "default", Job: j.name.Name, Group: "main", Index: i, Version: 1}
		j.slots = append(j.slots, slot)
		changes = append(changes, cellstate.Change{Key: slot.PlacementKey(), Value: &ohmv1.Placement{
			Slot: slot.Proto(), Attempt: 1, Node: string(node(n)), Resources: &ohmv1.Resources{CpuMilli: 1000, MemoryBytes: 1 << 30},
			Scheduler: "batch", Instance: "batch-0", Txn: "01KB0000000000000000000000", Time: timestamppb.Now(),
			Fence: &ohmv1.Fence{Compared: int64(c.snapshot.Node(node(n)).Fence), Records: 1},
		}})
	}
	c.live = append(c.live, j)
	return changes
}

// remove are the changes of a job that goes with all that is stored of it.
func (c *steadyCell) remove() []cellstate.Change {
	i := c.chance.IntN(len(c.live))
	j := c.live[i]
	c.live[i] = c.live[len(c.live)-1]
	c.live = c.live[:len(c.live)-1]
	changes := []cellstate.Change{{Key: cellstate.JobKey(j.name), Deleted: true}}
	for _, slot := range j.slots {
		changes = append(changes, cellstate.Change{Key: slot.PlacementKey(), Deleted: true})
	}
	return changes
}

// BenchmarkApplySteady is the cost of an event in a mirror: jobs of a hundred tasks come
// to 5000 nodes with 38 tasks each and go again.
func BenchmarkApplySteady(b *testing.B) {
	c := newSteadyCell(b, 5000, 38, 100)
	b.ReportAllocs()
	b.ResetTimer()
	events := 0
	for events < b.N {
		b.StopTimer()
		came, went := c.submit(), c.remove()
		b.StartTimer()
		c.apply(b, came)
		c.apply(b, went)
		events += len(came) + len(went)
	}
}
