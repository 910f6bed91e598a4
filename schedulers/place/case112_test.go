package place_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/service"
)

func static(port int32) []*ohmv1.Port { return []*ohmv1.Port{{Name: "http", Number: port}} }

func dynamic(count int) (ports []*ohmv1.Port) {
	for i := range count {
		ports = append(ports, &ohmv1.Port{Name: fmt.Sprint("p", i)})
	}
	return ports
}

// node puts a node with a live session.
func node(cell *celltest.Cell, n celltest.Node) {
	cell.Node(n)
	name := cellstate.NodeName(n.Name)
	cell.Put(cellstate.Record{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: n.Name}})
}

func input(s *cellstate.Snapshot, jobs ...string) schedulers.Input {
	return schedulers.Input{Snapshot: s, Work: placetest.Work(s, jobs...), Limits: cellstate.Limits{Claims: 100}}
}

// Field case 112: a static port on three nodes places three of four tasks, each on a node of
// its own, and the fourth is told why it waits.
func TestCase112StaticPort(t *testing.T) {
	for _, policy := range []schedulers.Scheduler{batch.New(), service.New()} {
		cell := celltest.New(t, memstore.New())
		for i := range 3 {
			node(cell, celltest.Node{Name: fmt.Sprint("n", i)})
		}
		cell.Job(celltest.Job{Name: "web", Count: 4, Ports: static(8080)})
		in := input(cell.Snapshot(), "web")
		out, err := policy.Schedule(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		placetest.Check(t, in, out)
		nodes := map[cellstate.NodeName]bool{}
		for _, c := range out.Txns[0].Claims {
			nodes[c.Node] = true
			if len(c.Ports) != 1 || c.Ports[0].GetNumber() != 8080 || c.Ports[0].GetName() != "http" {
				t.Errorf("%s has %v", c.Slot, c.Ports)
			}
		}
		if len(nodes) != 3 || len(out.Txns[0].Claims) != 3 || len(out.Unplaced) != 1 {
			t.Fatalf("%d claims on %d nodes, unplaced: %+v", len(out.Txns[0].Claims), len(nodes), out.Unplaced)
		}
		why := out.Unplaced[0].Reasons
		if len(why) != 1 || why[0].GetReason() != "Port" || why[0].GetDimension() != "8080" || why[0].GetNodes() != 3 {
			t.Errorf("it waits because of %v", why)
		}
	}
}

// Who has a port is named.
func TestPortsOwnerIsNamed(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	node(cell, celltest.Node{Name: "n1", Reserved: []int32{22}})
	cell.Job(celltest.Job{Name: "first", Ports: static(8080)})
	cell.Place("first", 0, "n1")
	for port, want := range map[int32]string{8080: "such as by first/main/0 on node n1", 22: "reserved on node n1"} {
		name := fmt.Sprint("second", port)
		cell.Job(celltest.Job{Name: name, Ports: static(port)})
		out, err := batch.New().Schedule(t.Context(), input(cell.Snapshot(), name))
		if err != nil || len(out.Unplaced) != 1 || out.Unplaced[0].Reasons[0].GetDetail() != want {
			t.Errorf("port %d: %v, %v", port, out.Unplaced, err)
		}
	}
}

// Field case 10: five dynamic ports out of six are five different ones, a thousand times,
// also where one of the six is static or belongs to somebody.
func TestCase10DynamicPorts(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	node(cell, celltest.Node{Name: "n1", CPU: 1 << 30, Ports: [2]int32{20000, 20005}})
	policy := batch.New()
	for i := range 1000 {
		want := dynamic(5)
		if i%2 == 1 {
			want[i%5].Number = 20000 + int32(i%6)
		}
		const name = "a" // each time a new version of it
		cell.Job(celltest.Job{Name: name, Ports: want})
		in := input(cell.Snapshot(), name)
		out, err := policy.Schedule(t.Context(), in)
		if err != nil || len(out.Txns) != 1 {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		placetest.Check(t, in, out)
		seen := map[int32]bool{}
		for k, p := range out.Txns[0].Claims[0].Ports {
			if p.GetNumber() < 20000 || p.GetNumber() > 20005 || p.GetName() != want[k].GetName() || want[k].GetNumber() != 0 && p.GetNumber() != want[k].GetNumber() {
				t.Fatalf("%s has %v for %v", name, p, want[k])
			}
			seen[p.GetNumber()] = true
		}
		if len(seen) != 5 {
			t.Fatalf("%s has %v", name, out.Txns[0].Claims[0].Ports)
		}
	}
	cell.Job(celltest.Job{Name: "more", Ports: dynamic(7)})
	out, err := policy.Schedule(t.Context(), input(cell.Snapshot(), "more"))
	if err != nil || len(out.Unplaced) != 1 || out.Unplaced[0].Reasons[0].GetDimension() != cellstate.DynamicPorts {
		t.Errorf("seven of six: %+v, %v", out, err)
	}
}

// The tasks of one round on one node get different ports, a gang's too, and no more tasks
// than there are ports for.
func TestDynamicPortsOfARound(t *testing.T) {
	for name, c := range map[string]struct {
		policy schedulers.Scheduler
		job    celltest.Job
		placed int
	}{
		"batch": {batch.New(), celltest.Job{Count: 20, Ports: dynamic(3)}, 10},
		"gang":  {ml.New(), celltest.Job{Kind: "ml", Gang: true, Count: 10, Ports: dynamic(3)}, 10},
	} {
		cell := celltest.New(t, memstore.New())
		node(cell, celltest.Node{Name: "n1", Ports: [2]int32{20000, 20030}})
		c.job.Name = "a"
		cell.Job(c.job)
		in := input(cell.Snapshot(), "a")
		out, err := c.policy.Schedule(t.Context(), in)
		if err != nil || len(out.Txns) != 1 || len(out.Txns[0].Claims) != c.placed {
			t.Fatalf("%s: %+v, %v", name, out, err)
		}
		placetest.Check(t, in, out)
	}
}

// Schedulers that decide at the same time on the same node, each for a task of its own,
// hardly ever choose the same port.
func TestDynamicPortsAreSpread(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	node(cell, celltest.Node{Name: "n1", CPU: 1 << 30, Ports: [2]int32{20000, 32000}})
	const jobs = 400
	cell.Job(celltest.Job{Name: "a", Count: jobs, Ports: dynamic(1)})
	in, same := input(cell.Snapshot(), "a"), 0
	needs := in.Work[0].Needs
	owners := map[int32]int{}
	for i := range needs {
		in.Work[0].Needs = needs[i : i+1]
		out, err := batch.New().Schedule(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		port := out.Txns[0].Claims[0].Ports[0].GetNumber()
		if before, taken := owners[port]; taken && before/10 == i/10 { // ten at the same time
			same++
		}
		owners[port] = i
	}
	if same > jobs/100 || len(owners) < jobs*9/10 {
		t.Errorf("%d of %d tasks have what another of ten had chosen; %d different ports", same, jobs, len(owners))
	}
}

// A port that an attempt has found busy is not chosen again on that node, a dynamic one
// neither, and whoever waits for it is told so.
func TestCase112BusyPort(t *testing.T) {
	busy := []reconcile.BusyPort{{Node: "n1", Port: 8080}, {Node: "n1", Port: 20000}, {Node: "n1", Port: 20002}}
	for _, c := range []struct {
		ports  []*ohmv1.Port
		nodes  int
		want   string // port on node
		unless string
	}{
		{static(8080), 2, "8080 on n2", ""},
		{static(8080), 1, "", "such as by a process outside of the cell on node n1"},
		{static(8081), 1, "8081 on n1", ""},
		{dynamic(1), 1, "20001 on n1", ""},
		{dynamic(2), 1, "", "such as node n1, which gives those from 20000 to 20002"},
	} {
		cell := celltest.New(t, memstore.New())
		for i := range c.nodes {
			node(cell, celltest.Node{Name: fmt.Sprint("n", i+1), Ports: [2]int32{20000, 20002}})
		}
		cell.Job(celltest.Job{Name: "web", Ports: c.ports})
		in := input(cell.Snapshot(), "web")
		in.Work[0].Needs[0].BusyPorts = busy
		out, err := batch.New().Schedule(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		placetest.Check(t, in, out)
		got, why := "", ""
		for _, txn := range out.Txns {
			got = fmt.Sprintf("%d on %s", txn.Claims[0].Ports[0].GetNumber(), txn.Claims[0].Node)
		}
		for _, u := range out.Unplaced {
			why = u.Reasons[0].GetDetail()
		}
		if got != c.want || !strings.Contains(why, c.unless) || (why == "") != (c.unless == "") {
			t.Errorf("%v on %d nodes: %q, %q", c.ports, c.nodes, got, why)
		}
	}
}
