package cellstate_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestCharge: a node is charged with its ordinary placements plus, for each eviction
// set and in each dimension, the larger of victims and heirs.
func TestCharge(t *testing.T) {
	type p struct {
		cpu, memory int64
		gpu         int32 // milli of gpu-0
		txn, by     string
		evicts      bool
	}
	for _, c := range []struct {
		name        string
		on          []p
		cpu, memory int64
		gpu         int32
	}{
		{"nothing", nil, 0, 0, 0},
		{"ordinary ones add up", []p{{cpu: 1, memory: 2, gpu: 300}, {cpu: 3, memory: 4, gpu: 600}}, 4, 6, 900},
		{"the larger in each dimension", []p{{cpu: 3, memory: 1, gpu: 500, by: "x"}, {cpu: 1, memory: 5, gpu: 800, txn: "x", evicts: true}}, 3, 5, 800},
		{"several victims and heirs", []p{{cpu: 2, by: "x"}, {cpu: 2, by: "x"}, {cpu: 3, txn: "x", evicts: true}, {cpu: 3, txn: "x", evicts: true}}, 6, 0, 0},
		{"sets are apart", []p{{cpu: 2, by: "x"}, {cpu: 1, txn: "x", evicts: true}, {cpu: 1, by: "y"}, {cpu: 4, txn: "y", evicts: true}}, 6, 0, 0},
		{"victims whose heir went", []p{{cpu: 2, gpu: 1000, by: "x"}}, 2, 0, 1000},
		{"an heir whose victims went", []p{{cpu: 2, txn: "x", evicts: true}}, 2, 0, 0},
		{"a claim of the same transaction that evicts nobody", []p{{cpu: 2, by: "x"}, {cpu: 2, txn: "x", evicts: true}, {cpu: 1, txn: "x"}}, 3, 0, 0},
		{"an heir that is a victim itself", []p{{cpu: 3, by: "x"}, {cpu: 2, txn: "x", evicts: true, by: "y"}, {cpu: 1, txn: "y", evicts: true}}, 5, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var records []cellstate.Change
			for i, p := range c.on {
				slot := cellstate.Slot{Namespace: "default", Job: "a", Group: "main", Index: i, Version: 1}
				placed := &ohmv1.Placement{Slot: slot.Proto(), Node: "n1", Txn: p.txn, EvictedBy: p.by,
					Resources: &ohmv1.Resources{CpuMilli: p.cpu, MemoryBytes: p.memory}}
				if p.gpu > 0 {
					placed.Gpus = []*ohmv1.DeviceShare{{Id: "gpu-0", Milli: p.gpu}}
				}
				if p.evicts {
					placed.Victims = []*ohmv1.Victim{{}}
				}
				records = append(records, cellstate.Change{Key: slot.PlacementKey(), Value: placed, Revision: cellstate.Revision(i + 2)})
			}
			records = append(records, cellstate.Change{Key: cellstate.NodeKey("n1"), Value: &ohmv1.Node{Name: "n1"}, Revision: 1})
			before := make([]*ohmv1.Placement, 0, len(c.on))
			for _, r := range records[:len(c.on)] {
				before = append(before, proto.CloneOf(r.Value.(*ohmv1.Placement)))
			}
			s, err := cellstate.NewSnapshot(10, records, nil)
			if err != nil {
				t.Fatal(err)
			}
			used := s.Node("n1").Used()
			if used.CPUMilli != c.cpu || used.MemoryBytes != c.memory || used.GPUs["gpu-0"] != c.gpu {
				t.Errorf("charged %+v, want cpu %d memory %d gpu %d", used, c.cpu, c.memory, c.gpu)
			}
			for i, r := range records[:len(c.on)] {
				if !proto.Equal(r.Value, before[i]) {
					t.Errorf("record %d was written to", i)
				}
			}
		})
	}
}
