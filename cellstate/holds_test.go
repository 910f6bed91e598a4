package cellstate_test

import (
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
)

// The owner of a hold sees on its node the room that it holds and no other, whatever is
// free besides.
func TestWithinHolds(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	cell.Node(celltest.Node{Name: "n1", CPU: 8000, GPUs: 3})
	cell.Node(celltest.Node{Name: "n2", CPU: 8000})
	cell.Job(celltest.Job{Name: "old", CPU: 1000, GPUs: 1, Share: 500})
	cell.Job(celltest.Job{Name: "a", Count: 4, CPU: 1500, GPUs: 1, Share: 400})
	cell.Job(celltest.Job{Name: "b", CPU: 2000})
	cell.Place("old", 0, "n1")
	hold := func(claims ...cellstate.Claim) *cellstate.Txn {
		s := cell.Snapshot()
		txn := celltest.Txn(s, cellstate.Incremental, claims...)
		w, conflicts := cellstate.PlanHold(s, time.Now(), txn, 0)
		if len(conflicts) > 0 {
			t.Fatal(conflicts)
		}
		cell.Write(w)
		return txn
	}
	claim := func(job string, index int, gpu string) cellstate.Claim {
		s := cell.Snapshot()
		c := celltest.Claim(s, celltest.Slot(s, celltest.Name(job), "main", index), "n1")
		if gpu != "" {
			c.GPUs[0].Id = gpu
		}
		return c
	}
	owner := hold(claim("a", 0, "gpu-1"), claim("a", 1, "gpu-1"))
	other := hold(claim("b", 0, ""))
	s := cell.Snapshot()
	view, err := s.WithinHolds(owner)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		on   *cellstate.Snapshot
		txn  *cellstate.Txn
		want int // how many of its claims fit
	}{
		{"what is held", view, celltest.Txn(view, cellstate.Incremental, claim("a", 0, "gpu-1"), claim("a", 1, "gpu-1")), 2},
		{"one more", view, celltest.Txn(view, cellstate.Incremental, claim("a", 0, "gpu-1"), claim("a", 1, "gpu-1"), claim("a", 2, "gpu-1")), 2},
		{"another device, which is free", view, celltest.Txn(view, cellstate.Incremental, claim("a", 0, "gpu-2")), 0},
		{"the same device beside another's share", view, celltest.Txn(view, cellstate.Incremental, claim("a", 0, "gpu-0")), 0},
		{"the other's room", view, celltest.Txn(view, cellstate.Incremental, claim("a", 0, "gpu-1"), claim("a", 1, "gpu-1"), claim("b", 0, "")), 2},
		{"the owner on the snapshot itself", s, owner, 2},
		{"the owner of the other", s, other, 1},
		{"a stranger", s, celltest.Txn(s, cellstate.Incremental, claim("a", 2, "gpu-1")), 0},
		{"a stranger on what nobody holds", s, celltest.Txn(s, cellstate.Incremental, claim("a", 2, "gpu-2")), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if fit, conflicts := cellstate.Validate(c.on, c.txn); len(fit) != c.want {
				t.Errorf("claims %v fit, want %d; conflicts %+v", fit, c.want, conflicts)
			}
		})
	}
	if n := s.Node("n1"); len(n.Holds) != 2 || n.Holds[0].GetResources().GetCpuMilli() != 3000 || len(n.Holds[0].GetGpus()) != 1 || n.Holds[0].GetGpus()[0].GetMilli() != 800 {
		t.Errorf("the snapshot itself has holds %v", n.Holds)
	}
}
