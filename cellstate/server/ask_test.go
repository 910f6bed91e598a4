package server_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// What a scheduler is asked through the server: about one node, and about a transaction, for as
// long as it is there. Nothing of question and answer is left in the store.
func TestAskAScheduler(t *testing.T) {
	cell := schedtest.New(t)
	w := serve(t, cell.Store)
	cell.Up(celltest.Node{Name: "n1", CPU: 4000})
	batch := cell.Run("batch", "a", schedtest.FirstFit{})
	cell.Submit(celltest.Job{Name: "other", CPU: 3000})
	cell.Until("the other is placed", func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, "other") == 1 })
	cell.Submit(celltest.Job{Name: "j", CPU: 2000})
	s := cell.Until("it waits", func(s *cellstate.Snapshot) bool { return schedtest.Word(s, "j") != nil })
	w.seen()

	node, err := w.insight.ExplainNode(w.ctx, &ohmv1.ExplainNodeRequest{Namespace: "default", Job: "j", Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if g := node.GetGroups(); len(g) != 1 || g[0].GetFits() || len(g[0].GetRefusals()) != 1 || g[0].Refusals[0].GetDimension() != "cpu" || g[0].Refusals[0].GetTakers()[0].GetTask() != "other/main/0" {
		t.Errorf("of n1 it says %v; want that other/main/0 has the cpu", g)
	}
	for _, c := range []struct{ job, node, text string }{{"j", "n9", "node n9 not found"}, {"k", "n1", "job default/k not found"}} {
		if _, err := w.insight.ExplainNode(w.ctx, &ohmv1.ExplainNodeRequest{Namespace: "default", Job: c.job, Node: c.node}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), c.text) {
			t.Errorf("of job %s and node %s: %v; want %s", c.job, c.node, err, c.text)
		}
	}

	p := s.Job(celltest.Name("other")).Tasks[0].Placement
	txn := &ohmv1.GetTxnRequest{Transaction: p.GetTxn()}
	d, err := w.insight.ExplainTxn(w.ctx, txn)
	if err != nil || d.GetSource() != "log" || d.GetSnapshotRevision() != p.GetSnapshotRevision() || len(d.GetChosen()) != 1 || d.Chosen[0].GetNode() != "n1" {
		t.Errorf("of the transaction it says %v, %v", d, err)
	}
	if _, err := w.insight.ExplainTxn(w.ctx, &ohmv1.GetTxnRequest{Transaction: "T0"}); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "beyond retention") {
		t.Errorf("of a transaction that nobody knows: %v", err)
	}
	for a := range cell.Snapshot().Asks("batch") {
		t.Errorf("left in the store: %v", a)
	}

	batch.Stop()
	cell.Until("it is gone", func(s *cellstate.Snapshot) bool { return len(s.Scheduler("batch").Instances) == 0 })
	w.seen()
	if d, err = w.insight.ExplainTxn(w.ctx, txn); err != nil || d.GetSource() != "store" || d.GetOutcome() != "Committed" || d.GetRevision() != int64(p.Revision) || d.Chosen[0].GetNode() != "n1" {
		t.Errorf("without its scheduler it says %v, %v", d, err)
	}
	if _, err := w.insight.ExplainNode(w.ctx, &ohmv1.ExplainNodeRequest{Namespace: "default", Job: "j", Node: "n1"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("without its scheduler it says of the node: %v", err)
	}
	cell.Run("batch", "a", schedtest.FirstFit{})
	cell.Until("there is another", func(s *cellstate.Snapshot) bool { return len(s.Scheduler("batch").Instances) == 1 })
	w.seen()
	if d, err = w.insight.ExplainTxn(w.ctx, txn); err != nil || d.GetSource() != "store" || !strings.Contains(d.GetMessage(), "beyond the retention") {
		t.Errorf("its successor says %v, %v", d, err)
	}
}

// A scheduler that stands still has not answered, which is not to say that its decision log knows
// nothing.
func TestAskASchedulerThatStandsStill(t *testing.T) {
	t.Parallel()
	cell := schedtest.New(t)
	w := serve(t, cell.Store)
	cell.Up(celltest.Node{Name: "n1", CPU: 4000})
	batch := cell.Run("batch", "a", schedtest.FirstFit{})
	cell.Submit(celltest.Job{Name: "j", CPU: 2000})
	s := cell.Until("it is placed", func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, "j") == 1 })
	batch.Stop()
	cell.Until("it is gone", func(s *cellstate.Snapshot) bool { return len(s.Scheduler("batch").Instances) == 0 })
	cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "a"), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: "a"}}) // and is not there
	w.seen()
	p := s.Job(celltest.Name("j")).Tasks[0].Placement
	if d, err := w.insight.ExplainTxn(w.ctx, &ohmv1.GetTxnRequest{Transaction: p.GetTxn()}); err != nil || d.GetSource() != "store" || !strings.Contains(d.GetMessage(), "has not answered within 3s") || d.Chosen[0].GetNode() != "n1" {
		t.Errorf("of its transaction: %v, %v", d, err)
	}
	if _, err := w.insight.ExplainTxn(w.ctx, &ohmv1.GetTxnRequest{Transaction: "T0"}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "not every scheduler has said") {
		t.Errorf("of a transaction that nothing is stored of: %v", err)
	}
	if _, err := w.insight.ExplainNode(w.ctx, &ohmv1.ExplainNodeRequest{Namespace: "default", Job: "j", Node: "n1"}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "scheduler batch has not answered within 3s") {
		t.Errorf("of a node: %v", err)
	}
	for a := range cell.Snapshot().Asks("batch") {
		t.Errorf("left in the store: %v", a)
	}
}
