package cellstate_test

import (
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What Holds says of a write is what a store says that is at the snapshot's revision.
func TestHolds(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	cell.Node(celltest.Node{Name: "n1"})
	cell.Job(celltest.Job{Name: "a", Count: 3, CPU: 100})
	cell.Job(celltest.Job{Name: "ab", CPU: 100})
	cell.Place("a", 0, "n1")
	cell.Place("a", 1, "n1")
	s := cell.Snapshot()
	first, second, third := celltest.Slot(s, celltest.Name("a"), "main", 0), celltest.Slot(s, celltest.Name("a"), "main", 1), celltest.Slot(s, celltest.Name("a"), "main", 2)
	cell.Release(first, task.Succeeded)
	s = cell.Snapshot()
	fence := s.Node("n1").Fence
	placed := s.RecordRevision(second.PlacementKey())
	from, end := cellstate.TasksKeys(celltest.Name("a"))
	type guards = []cellstate.Guard
	for _, c := range []struct {
		name  string
		write cellstate.Write
		want  bool
	}{
		{"nothing compared", cellstate.Write{}, true},
		{"the fence", cellstate.Write{Fences: []cellstate.FenceBump{{Node: "n1", Compared: fence}}}, true},
		{"an older fence", cellstate.Write{Fences: []cellstate.FenceBump{{Node: "n1", Compared: fence - 1}}}, false},
		{"the fence of a node that is not there", cellstate.Write{Fences: []cellstate.FenceBump{{Node: "n2"}}}, true},
		{"a record as it is", cellstate.Write{Records: []cellstate.Record{{Key: second.PlacementKey(), Read: placed}}}, true},
		{"a record that was newer", cellstate.Write{Records: []cellstate.Record{{Key: second.PlacementKey(), Read: placed - 1}}}, false},
		{"a record that is gone", cellstate.Write{Records: []cellstate.Record{{Key: first.PlacementKey(), Read: placed}}}, false},
		{"a record that a guard covers", cellstate.Write{Records: []cellstate.Record{{Key: first.PlacementKey(), Value: &ohmv1.Placement{}, Read: cellstate.ReadGuarded}}}, true},
		{"an empty slot", cellstate.Write{Guards: guards{{Key: third.EndedKey(1), End: third.PlacementKey() + "\x00"}}}, true},
		{"a taken slot", cellstate.Write{Guards: guards{{Key: second.EndedKey(2), End: second.PlacementKey() + "\x00"}}}, false},
		{"a slot with an ended attempt", cellstate.Write{Guards: guards{{Key: first.EndedKey(1), End: first.PlacementKey() + "\x00"}}}, false},
		{"its next attempt", cellstate.Write{Guards: guards{{Key: first.EndedKey(2), End: first.PlacementKey() + "\x00"}}}, true},
		{"nothing newer", cellstate.Write{Guards: guards{{Key: from, End: end, Revision: s.Revision(), NotNewer: true}}}, true},
		{"something newer", cellstate.Write{Guards: guards{{Key: from, End: end, Revision: placed, NotNewer: true}}}, false},
		{"a key that is not there", cellstate.Write{Guards: guards{{Key: cellstate.AliveKey("n1")}}}, true},
		{"a job as it was read", cellstate.Write{Guards: guards{{Key: cellstate.JobKey(celltest.Name("ab")), Revision: s.Job(celltest.Name("ab")).Revision}}}, true},
		{"a job that was not there", cellstate.Write{Guards: guards{{Key: cellstate.JobKey(celltest.Name("ab"))}}}, false},
	} {
		if got := s.Holds(&c.write); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
