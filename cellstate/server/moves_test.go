package server_test

import (
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Plans are shown with the budgets that bind them, and change nothing.
func TestPlanMoves(t *testing.T) {
	w := serve(t, nil)
	w.attach("n1", "s1")
	w.submit(celltest.Job{Name: "web", Kind: "service", Count: 2, CPU: 500, Disruption: &ohmv1.Disruption{MaxUnavailable: 1}})
	w.submit(celltest.Job{Name: "sum", Count: 1, CPU: 500})
	for i := range 2 {
		w.cell.Status(w.cell.Place("web", i, "n1").Slot, task.Running)
	}
	w.attach("n2", "s1")
	before := w.seen()
	plan, err := w.insight.PlanMoves(w.ctx, &ohmv1.PlanMovesRequest{Job: "web"})
	if err != nil || len(plan.GetMoves()) != 1 {
		t.Fatalf("%v, %v; want one move", plan, err)
	}
	if m := plan.Moves[0]; m.Namespace != "default" || m.Kind != "service" || m.Attempt != 1 || m.From != "n1" || m.To != "n2" || m.Budget != "0 of at most 1 down" {
		t.Errorf("the move is %v", m)
	}
	if got := fmt.Sprint(plan.Before.MostTasks, plan.Before.FewestTasks, plan.After.MostTasks, plan.After.FewestTasks); got != "2 0 1 1" || plan.SnapshotRevision != int64(before.Revision()) {
		t.Errorf("the plan is %v", plan)
	}
	cell, err := w.insight.PlanMoves(w.ctx, &ohmv1.PlanMovesRequest{Most: 7})
	if err != nil || len(cell.GetMoves()) != 0 || cell.After.EmptyNodes != 1 {
		t.Errorf("of the cell %v, %v", cell, err)
	}
	if after := w.seen(); after.Revision() != before.Revision() {
		t.Error("a plan has written something")
	}
	_, err = w.insight.PlanMoves(w.ctx, &ohmv1.PlanMovesRequest{Job: "nothing"})
	wantCode(t, err, codes.NotFound)
	_, err = w.insight.PlanMoves(w.ctx, &ohmv1.PlanMovesRequest{Job: "sum"})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = w.insight.PlanMoves(w.ctx, &ohmv1.PlanMovesRequest{Most: -1})
	wantCode(t, err, codes.InvalidArgument)
}
