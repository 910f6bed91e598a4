package cellstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// gangCell has nodes n1 to n4 and a gang: a group z of one task, and then a of three.
type gangCell struct {
	*celltest.Cell
	t    *testing.T
	name cellstate.JobName
}

func newGangCell(t *testing.T) *gangCell {
	c := &gangCell{Cell: celltest.New(t, memstore.New()), t: t}
	for i := range 4 {
		c.Node(celltest.Node{Name: fmt.Sprintf("n%d", i+1), Ports: [2]int32{20000, 29999}})
	}
	group := func(name string, count int32) *ohmv1.Group {
		return &ohmv1.Group{Name: name, Count: count, Resources: &ohmv1.Resources{CpuMilli: 1}, Ports: []*ohmv1.Port{{Name: "master"}}}
	}
	c.name = c.Job(celltest.Job{Name: "g", Kind: "ml", Gang: true, Min: 1, Groups: []*ohmv1.Group{group("z", 1), group("a", 3)}})
	return c
}

// gang commits tasks, written as group/index@node, as one transaction.
func (c *gangCell) gang(tasks ...string) cellstate.TxnID {
	s := c.Snapshot()
	var claims []cellstate.Claim
	for _, text := range tasks {
		var index int
		group, rest, _ := strings.Cut(text, "/")
		at, node, _ := strings.Cut(rest, "@")
		if _, err := fmt.Sscan(at, &index); err != nil {
			c.t.Fatal(err)
		}
		claims = append(claims, celltest.Claim(s, celltest.Slot(s, c.name, group, index), cellstate.NodeName(node)))
	}
	txn := celltest.Txn(s, cellstate.Atomic, claims...)
	c.Commit(s, txn)
	return txn.ID
}

func (c *gangCell) end(group string, index int) {
	c.End(celltest.Slot(c.Snapshot(), c.name, group, index), task.Exited)
}

// told is what the stored state says to a live task of the gang.
func (c *gangCell) told(group string, index int) string {
	c.t.Helper()
	s := c.Snapshot()
	slot := celltest.Slot(s, c.name, group, index)
	p := s.Job(c.name).Task(slot).Placement
	members := cellstate.Members(s.Job(c.name), p)
	var hosts []string
	for _, m := range members {
		hosts = append(hosts, m.GetNode())
	}
	rank := slices.IndexFunc(members, func(m *ohmv1.Placement) bool { return cellstate.SlotOf(m.GetSlot()) == slot })
	if stored := p.Record(); rank != int(stored.GetRank()) || len(members) != int(stored.GetWorldSize()) {
		c.t.Errorf("%s is member %d of %d; stored is %d of %d", slot, rank, len(members), stored.GetRank(), stored.GetWorldSize())
	}
	return fmt.Sprintf("%d of %s at %d", rank, strings.Join(hosts, ","), members[0].GetPorts()[0].GetNumber())
}

func (c *gangCell) want(what string, told map[string]string) {
	c.t.Helper()
	for at, want := range told {
		var index int
		group, rest, _ := strings.Cut(at, "/")
		if _, err := fmt.Sscan(rest, &index); err != nil {
			c.t.Fatal(err)
		}
		master := c.Snapshot().Job(c.name)
		port := master.Task(celltest.Slot(c.Snapshot(), c.name, "z", 0))
		p := port.Placement.GetPorts()
		if port.Placement == nil {
			p = port.Ended[len(port.Ended)-1].GetPlacement().GetPorts()
		}
		if got := c.told(group, index); got != fmt.Sprintf("%s at %d", want, p[0].GetNumber()) {
			c.t.Errorf("%s: %s is told %s; want %s at %d", what, at, got, want, p[0].GetNumber())
		}
	}
}

// What a gang's members are told is judged by what is stored.
func TestWorlds(t *testing.T) {
	c := newGangCell(t)
	first := c.gang("a/2@n1", "a/0@n2", "z/0@n3", "a/1@n1")
	founded := map[string]string{"z/0": "0 of n3,n2,n1,n1", "a/0": "1 of n3,n2,n1,n1", "a/1": "2 of n3,n2,n1,n1", "a/2": "3 of n3,n2,n1,n1"}
	c.want("together", founded)

	c.end("a", 1)
	delete(founded, "a/1")
	c.want("one has ended", founded)
	c.gang("a/1@n4")
	c.want("those of the first transaction are told what they were", founded)
	c.want("who comes again has the rank it had", map[string]string{"a/1": "2 of n3,n2,n4,n1"})
	c.end("a", 0)
	c.end("a", 2)
	c.gang("a/0@n4", "a/2@n2")
	c.want("both join the world of the living", map[string]string{"a/0": "1 of n3,n4,n4,n2", "a/2": "3 of n3,n4,n4,n2", "a/1": "2 of n3,n4,n4,n2"})
	for _, tk := range c.Snapshot().Job(c.name).Tasks {
		if got := tk.Placement.GetWorld(); got != string(first) {
			t.Errorf("%s is in world %s, want %s", tk.Slot, got, first)
		}
	}

	for group, count := range map[string]int{"z": 1, "a": 3} {
		for i := range count {
			c.end(group, i)
		}
	}
	second := c.gang("a/2@n4", "a/0@n4", "z/0@n4", "a/1@n4")
	if got := c.Snapshot().Job(c.name).Tasks[0].Placement.GetWorld(); got != string(second) {
		t.Errorf("where none lives a gang is in the world %s; want one of its own, %s", got, second)
	}
	c.want("anew", map[string]string{"z/0": "0 of n4,n4,n4,n4", "a/2": "3 of n4,n4,n4,n4"})
}

// A gang that begins with fewer has a world of those; the others come behind them.
func TestWorldGrows(t *testing.T) {
	c := newGangCell(t)
	c.gang("a/2@n1", "z/0@n2")
	c.want("two of four", map[string]string{"z/0": "0 of n2,n1", "a/2": "1 of n2,n1"})
	c.gang("a/0@n3", "a/1@n4")
	c.want("the first are told the same", map[string]string{"z/0": "0 of n2,n1", "a/2": "1 of n2,n1"})
	c.want("the others", map[string]string{"a/0": "2 of n2,n1,n3,n4", "a/1": "3 of n2,n1,n3,n4"})
}

// Two gangs with their rank 0 on one node never have the same port: the commit judges it.
func TestMasterPortIsOwned(t *testing.T) {
	c := newGangCell(t)
	c.Job(celltest.Job{Name: "h", Kind: "ml", Gang: true, CPU: 1, Ports: []*ohmv1.Port{{Name: "master"}}})
	s := c.Snapshot()
	g, h := claim(s, "g", 0, "n1"), claim(s, "h", 0, "n1")
	g.Slot = celltest.Slot(s, c.name, "z", 0)
	g = celltest.Claim(s, g.Slot, "n1")
	h.Ports = g.Ports
	c.Commit(s, celltest.Txn(s, cellstate.Atomic, g))
	_, conflicts := cellstate.Validate(c.Snapshot(), celltest.Txn(s, cellstate.Atomic, h))
	if len(conflicts) != 1 || conflicts[0].Reason != cellstate.ReasonPort {
		t.Errorf("the second master on %v: %v", h.Ports, conflicts)
	}
}

// A gang that is to be within one rack is refused where it comes apart, and so is who comes
// later or at the same time elsewhere.
func TestGangWithinIsJudged(t *testing.T) {
	store := memstore.New()
	c := celltest.New(t, store)
	for node, rack := range map[string]string{"a1": "a", "a2": "a", "b1": "b", "n": ""} {
		n := celltest.Node{Name: node}
		if rack != "" {
			n.Attributes = map[string]string{"rack": rack}
		}
		c.Node(n)
	}
	group := func(name string, count int32) *ohmv1.Group {
		return &ohmv1.Group{Name: name, Count: count, Resources: &ohmv1.Resources{CpuMilli: 1}}
	}
	name := c.Job(celltest.Job{Name: "g", Kind: "ml", Within: "rack", Min: 1, Groups: []*ohmv1.Group{group("z", 1), group("a", 3)}})
	old := c.Snapshot()
	txn := func(s *cellstate.Snapshot, nodes ...cellstate.NodeName) *cellstate.Txn {
		var claims []cellstate.Claim
		for i, node := range nodes {
			slot := celltest.Slot(s, name, "a", i-1)
			if i == 0 {
				slot = celltest.Slot(s, name, "z", 0)
			}
			if node != "" {
				claims = append(claims, celltest.Claim(s, slot, node))
			}
		}
		return celltest.Txn(s, cellstate.Atomic, claims...)
	}
	refused := func(what string, s *cellstate.Snapshot, txn *cellstate.Txn) {
		t.Helper()
		_, conflicts := cellstate.Validate(s, txn)
		if len(conflicts) == 0 || conflicts[0].Reason != cellstate.ReasonRule || conflicts[0].Dimension != "its gang within rack" {
			t.Errorf("%s: %+v", what, conflicts)
		}
	}
	refused("two racks", old, txn(old, "a1", "b1"))
	refused("no rack", old, txn(old, "n"))
	first, other := txn(old, "a1", "a2"), txn(old, "", "", "b1")
	c.Commit(old, first)
	s := c.Snapshot()
	refused("another rack than those that live", s, txn(s, "", "", "b1"))
	plan := cellstate.MakePlan(old, time.Now(), 100, []*cellstate.Txn{other}, all)
	if _, err := store.Commit(t.Context(), plan.Writes...); err != nil {
		t.Fatal(err)
	}
	if p := c.Snapshot().Job(name).Task(other.Claims[0].Slot); p != nil && p.Placement != nil {
		t.Error("who does not know of the first came into another rack")
	}
	c.Commit(s, txn(s, "", "", "a1"))
}
