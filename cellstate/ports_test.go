package cellstate_test

import (
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A port has one owner on a node: another placement, a hold or the node itself keep a claim
// off it, each with what is to be said of it.
func TestPorts(t *testing.T) {
	static := func(port int32) []*ohmv1.Port { return []*ohmv1.Port{{Name: "http", Number: port}} }
	for _, c := range []struct {
		name  string
		ports []*ohmv1.Port             // of job a's group
		claim func(x *cellstate.Claim)  // nil: an honest one
		cell  func(cell *celltest.Cell) // what else there is
		want  cellstate.Conflict        // Reason, Dimension, Wanted, Free; no Reason: it fits
		won   string                    // task of the winner
	}{
		{name: "fits", ports: static(8080)},
		{name: "dynamic fits", ports: static(0)},
		{name: "taken", ports: static(8080), cell: func(cell *celltest.Cell) {
			cell.Job(celltest.Job{Name: "b", Ports: static(8080)})
			cell.Place("b", 0, "n1")
		}, want: cellstate.Conflict{Reason: cellstate.ReasonPort, Dimension: "8080", Wanted: "http"}},
		{name: "taken meanwhile", ports: static(8080), claim: func(*cellstate.Claim) {}, cell: func(cell *celltest.Cell) {
			cell.Job(celltest.Job{Name: "b", Ports: static(8080)})
			cell.Place("b", 0, "n1")
		}, want: cellstate.Conflict{Reason: cellstate.ReasonPort, Dimension: "8080", Wanted: "http"}, won: "b/main/0"},
		{name: "held", ports: static(8080), cell: func(cell *celltest.Cell) {
			cell.Job(celltest.Job{Name: "b", Ports: static(8080)})
			s := cell.Snapshot()
			txn := celltest.Txn(s, cellstate.Incremental, claim(s, "b", 0, "n1"))
			w, conflicts := cellstate.PlanHold(s, time.Now(), txn, 0)
			if len(conflicts) > 0 {
				t.Fatal(conflicts)
			}
			cell.Write(w)
		}, want: cellstate.Conflict{Reason: cellstate.ReasonHold, Dimension: "8080", Wanted: "http"}},
		{name: "reserved", ports: static(22), want: cellstate.Conflict{Reason: cellstate.ReasonPort, Dimension: "22", Wanted: "http", Free: "reserved"}},
		{name: "the group's is missing", ports: static(8080), claim: func(x *cellstate.Claim) { x.Ports = nil },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "port http"}},
		{name: "another one than the group's", ports: static(8080), claim: func(x *cellstate.Claim) { x.Ports = static(8081) },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "port http"}},
		{name: "not of the node's range", ports: static(0), claim: func(x *cellstate.Claim) { x.Ports = static(19999) },
			want: cellstate.Conflict{Reason: cellstate.ReasonPort, Dimension: "19999", Wanted: "http", Free: "20000-20009"}},
		{name: "the node has no range any more", ports: static(0), cell: func(cell *celltest.Cell) {
			cell.Node(celltest.Node{Name: "n1"})
		}, claim: func(x *cellstate.Claim) { x.Ports = static(20000) },
			want: cellstate.Conflict{Reason: cellstate.ReasonPort, Dimension: "20000", Wanted: "http", Free: "0-0"}},
	} {
		cell := celltest.New(t, memstore.New())
		cell.Node(celltest.Node{Name: "n1", Ports: [2]int32{20000, 20009}, Reserved: []int32{22}})
		cell.Job(celltest.Job{Name: "a", Ports: c.ports})
		before := cell.Snapshot()
		if c.cell != nil {
			c.cell(cell)
		}
		s := cell.Snapshot()
		x := claim(s, "a", 0, "n1")
		txn := celltest.Txn(s, cellstate.Incremental, x)
		if c.claim != nil {
			c.claim(&txn.Claims[0])
			txn.Snapshot = before.Revision() // on which it was decided
		}
		fit, conflicts := cellstate.Validate(s, txn)
		if c.want.Reason == "" {
			if len(fit) != 1 {
				t.Errorf("%s: %+v", c.name, conflicts)
			}
			continue
		}
		if len(conflicts) != 1 {
			t.Errorf("%s: it fits", c.name)
			continue
		}
		got := conflicts[0]
		won := ""
		if got.Winner != nil {
			won = got.Winner.Slot.Task()
		}
		if got.Reason != c.want.Reason || got.Dimension != c.want.Dimension || got.Wanted != c.want.Wanted || got.Free != c.want.Free || won != c.won {
			t.Errorf("%s: %s %s wanted %q free %q won %q, want %+v", c.name, got.Reason, got.Dimension, got.Wanted, got.Free, won, c.want)
		}
	}
}
