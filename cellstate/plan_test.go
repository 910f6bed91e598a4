package cellstate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func all(cellstate.ClaimRef) bool { return false }

// planCell has three nodes of 4 cores and jobs a and b of four 1-core tasks.
func planCell(t *testing.T) *celltest.Cell {
	cell := newCell(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		cell.Node(celltest.Node{Name: n, CPU: 4000})
	}
	cell.Job(celltest.Job{Name: "a", Count: 4, CPU: 1000})
	cell.Job(celltest.Job{Name: "b", Count: 4, CPU: 1000})
	return cell
}

// shape is, by write, the nodes whose fences it bumps.
func shape(p *cellstate.Plan) [][]cellstate.NodeName {
	var out [][]cellstate.NodeName
	for _, w := range p.Writes {
		var nodes []cellstate.NodeName
		for _, f := range w.Fences {
			nodes = append(nodes, f.Node)
		}
		out = append(out, nodes)
	}
	return out
}

func TestMakePlan(t *testing.T) {
	type nodes = []cellstate.NodeName
	at := func(job string, on ...cellstate.NodeName) func(*cellstate.Snapshot, cellstate.Mode) *cellstate.Txn {
		return func(s *cellstate.Snapshot, mode cellstate.Mode) *cellstate.Txn {
			var claims []cellstate.Claim
			for i, n := range on {
				claims = append(claims, claim(s, job, i, n))
			}
			return celltest.Txn(s, mode, claims...)
		}
	}
	inc, atomic := cellstate.Incremental, cellstate.Atomic
	for _, c := range []struct {
		name     string
		a, b     func(*cellstate.Snapshot, cellstate.Mode) *cellstate.Txn
		modes    [2]cellstate.Mode
		writes   []nodes
		deferred []int
	}{
		{"incremental: a write for each node", at("a", "n1", "n2", "n1"), nil, [2]cellstate.Mode{inc}, []nodes{{"n1"}, {"n2"}}, nil},
		{"two incremental share a node's write", at("a", "n1", "n2"), at("b", "n2", "n3"), [2]cellstate.Mode{inc, inc}, []nodes{{"n1"}, {"n2"}, {"n3"}}, nil},
		{"atomic: one write", at("a", "n1", "n2", "n1"), nil, [2]cellstate.Mode{atomic}, []nodes{{"n1", "n2"}}, nil},
		{"two atomic on other nodes", at("a", "n1", "n2"), at("b", "n3"), [2]cellstate.Mode{atomic, atomic}, []nodes{{"n1", "n2"}, {"n3"}}, nil},
		{"a second atomic on the same node waits", at("a", "n1", "n2"), at("b", "n2", "n3"), [2]cellstate.Mode{atomic, atomic}, []nodes{{"n1", "n2"}}, []int{1}},
		{"incremental after atomic on the same node waits", at("a", "n1"), at("b", "n1", "n2"), [2]cellstate.Mode{atomic, inc}, []nodes{{"n1"}}, []int{1}},
		{"atomic after incremental on the same node waits", at("a", "n1"), at("b", "n1", "n2"), [2]cellstate.Mode{inc, atomic}, []nodes{{"n1"}}, []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := planCell(t).Snapshot()
			txns := []*cellstate.Txn{c.a(s, c.modes[0])}
			if c.b != nil {
				txns = append(txns, c.b(s, c.modes[1]))
			}
			p := cellstate.MakePlan(s, time.Now(), 1000, txns, all)
			if !slices.EqualFunc(shape(p), c.writes, slices.Equal) || !slices.Equal(p.Deferred, c.deferred) {
				t.Errorf("writes %v, deferred %v; want %v, %v", shape(p), p.Deferred, c.writes, c.deferred)
			}
			for w := range p.Writes {
				checkWrite(t, s, txns, p, w)
			}
		})
	}
}

// checkWrite asserts what a write must compare and carry, whatever the plan.
func checkWrite(t *testing.T, s *cellstate.Snapshot, txns []*cellstate.Txn, p *cellstate.Plan, w int) {
	t.Helper()
	write := p.Writes[w]
	perNode := map[cellstate.NodeName]int32{}
	for _, ref := range p.Claims[w] {
		c := txns[ref.Txn].Claims[ref.Claim]
		perNode[c.Node]++
		job := cellstate.Guard{Key: cellstate.JobKey(c.Slot.JobName()), Revision: c.JobRevision}
		slot := cellstate.Guard{Key: c.Slot.EndedKey(c.Attempt), End: c.Slot.PlacementKey() + "\x00"}
		for _, g := range []cellstate.Guard{job, slot} {
			if !slices.Contains(write.Guards, g) {
				t.Errorf("write %d lacks the guard %v", w, g)
			}
		}
	}
	for _, f := range write.Fences {
		if f.Compared != s.Node(f.Node).Fence || f.Compared == 0 {
			t.Errorf("write %d compares fence %v", w, f)
		}
	}
	for _, r := range write.Records {
		placed := r.Value.(*ohmv1.Placement)
		node := s.Node(cellstate.NodeName(placed.GetNode()))
		if placed.GetFence().GetCompared() != int64(node.Fence) || placed.GetFence().GetRecords() != perNode[node.Name] {
			t.Errorf("%s carries the fence %v", r.Key, placed.GetFence())
		}
	}
}

func TestMakePlanSkipsAndSettles(t *testing.T) {
	cell := planCell(t)
	s := cell.Snapshot()
	txn := celltest.Txn(s, cellstate.Incremental, claim(s, "a", 0, "n1"), claim(s, "a", 1, "n1"), claim(s, "a", 2, "n2"))
	first := cellstate.MakePlan(s, time.Now(), 1000, []*cellstate.Txn{txn}, func(r cellstate.ClaimRef) bool { return r.Claim == 0 })
	if got := first.Claims; len(got) != 2 || !slices.Equal(got[0], []cellstate.ClaimRef{{Txn: 0, Claim: 1}}) {
		t.Errorf("claims %v", got)
	}
	at := cell.Write(first.Writes[0])
	cell.Release(slot(s, "a", 1), task.Failed) // it has ended since: it committed all the same
	cell.Write(first.Writes[1])
	again := cellstate.MakePlan(cell.Snapshot(), time.Now(), 1000, []*cellstate.Txn{txn}, all)
	if again.Done[cellstate.ClaimRef{Claim: 1}] != at || again.Done[cellstate.ClaimRef{Claim: 2}] == 0 || len(again.Done) != 2 {
		t.Errorf("done %v", again.Done)
	}
	if len(again.Writes) != 1 || len(again.Conflicts[0]) != 0 {
		t.Errorf("writes %v, conflicts %v", shape(again), again.Conflicts)
	}
}

// A write that is full puts off the further claims of its node, and no others.
func TestMakePlanFillsWrites(t *testing.T) {
	s := planCell(t).Snapshot()
	txn := celltest.Txn(s, cellstate.Incremental, claim(s, "a", 0, "n1"), claim(s, "a", 1, "n1"), claim(s, "a", 2, "n2"))
	p := cellstate.MakePlan(s, time.Now(), 1, []*cellstate.Txn{txn}, all)
	if len(p.Claims) != 2 || p.Claims[0][0].Claim != 0 || p.Claims[1][0].Claim != 2 || !slices.Equal(p.Deferred, []int{0}) || len(p.Conflicts[0]) != 0 {
		t.Errorf("claims %v, deferred %v, conflicts %+v", p.Claims, p.Deferred, p.Conflicts)
	}
}

// A transaction that does not fit as a whole leaves its room to the next one.
func TestMakePlanRollsBack(t *testing.T) {
	cell := planCell(t)
	cell.Job(celltest.Job{Name: "big", Count: 2, CPU: 4000})
	cell.Place("a", 0, "n2")
	s := cell.Snapshot()
	gang := celltest.Txn(s, cellstate.Atomic, claim(s, "big", 0, "n1"), claim(s, "big", 1, "n2"))
	next := celltest.Txn(s, cellstate.Incremental, claim(s, "big", 0, "n1"))
	p := cellstate.MakePlan(s, time.Now(), 1000, []*cellstate.Txn{gang, next}, all)
	if len(p.Conflicts[0]) != 1 || len(p.Conflicts[1]) != 0 || len(p.Writes) != 1 || p.Claims[0][0].Txn != 1 {
		t.Errorf("conflicts %+v, claims %v", p.Conflicts, p.Claims)
	}
}

// NodeWrite compares and bumps the fence, and its record carries what was compared.
func TestNodeWrite(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1"})
	old := cell.Snapshot().Node("n1")
	rec := func(n *cellstate.Node) cellstate.Record {
		return cellstate.Record{Key: cellstate.IntentKey("n1"), Value: &ohmv1.Intent{Node: "n1"}, Read: n.IntentRevision}
	}
	at := cell.Write(cellstate.NodeWrite("n1", old, rec(old)))
	now := cell.Snapshot().Node("n1")
	if now.Fence != at || now.Intent.GetFence().GetCompared() != int64(old.Fence) || now.Intent.GetFence().GetRecords() != 1 {
		t.Errorf("fence %d, record %v", now.Fence, now.Intent)
	}
	late := rec(now)
	out, err := store.Commit(context.Background(), cellstate.NodeWrite("n1", old, late)) // its fence is old, its record is not
	if err != nil || out.Applied[0] != 0 {
		t.Errorf("outcome %+v, error %v", out, err)
	}
}
