package server_test

import (
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Held room is shown on its node, and where its job is explained; nowhere else.
func TestHoldsAreShown(t *testing.T) {
	w := serve(t, nil)
	for _, n := range []string{"n1", "n2"} {
		w.cell.Node(celltest.Node{Name: n})
	}
	w.submit(celltest.Job{Name: "a", Count: 2, CPU: 1000})
	w.submit(celltest.Job{Name: "b"})
	s := w.cell.Snapshot()
	claim := func(index int, node cellstate.NodeName) cellstate.Claim {
		return celltest.Claim(s, celltest.Slot(s, celltest.Name("a"), "main", index), node)
	}
	txn := celltest.Txn(s, cellstate.Atomic, claim(0, "n1"), claim(1, "n1"))
	write, conflicts := cellstate.PlanHold(s, time.Now(), txn, 0)
	if len(conflicts) > 0 {
		t.Fatal(conflicts)
	}
	w.cell.Write(write)
	w.seen()
	is := func(where string, holds []*ohmv1.Hold) {
		t.Helper()
		if len(holds) != 1 {
			t.Fatalf("%s: %v", where, holds)
		}
		if h := holds[0]; h.GetNode() != "n1" || h.GetTxn() != string(txn.ID) || h.GetScheduler() != "batch" || h.GetInstance() != "test" ||
			h.GetSlot().GetJob() != "a" || h.GetResources().GetCpuMilli() != 2000 || time.Since(h.GetTime().AsTime()) > time.Minute || h.GetFence() != nil {
			t.Errorf("%s: %v", where, h)
		}
	}
	for _, n := range []string{"n1", "n2"} {
		view, err := w.nodes.Get(w.ctx, &ohmv1.GetNodeRequest{Node: n})
		if err != nil {
			t.Fatal(err)
		}
		if n == "n1" {
			is("node n1", view.GetHolds())
		} else if len(view.GetHolds()) > 0 {
			t.Errorf("node n2: %v", view.GetHolds())
		}
	}
	if n := gauges(t, w.server.Collector())["ohm_holds"]; n != 1 {
		t.Errorf("%v holds are counted", n)
	}
	for _, job := range []string{"a", "b"} {
		explained, err := w.insight.Explain(w.ctx, &ohmv1.GetJobRequest{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		if job == "a" {
			is("explain a", explained.GetHolds())
		} else if len(explained.GetHolds()) > 0 {
			t.Errorf("explain b: %v", explained.GetHolds())
		}
	}
}
