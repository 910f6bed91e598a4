package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/service"
)

// agents stand in for those of all nodes: they start what is placed, and end what is to end.
func agents(ctx context.Context, w *world) {
	for tick := time.NewTicker(time.Millisecond); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		s := w.cell.Snapshot()
		for n := range s.Nodes() {
			for _, p := range n.Placements() {
				j := s.Job(p.Slot.JobName())
				if cause := reconcile.StopCause(j, p, n); cause != "" {
					w.cell.End(p.Slot, cause)
				} else if j.Task(p.Slot).Status == nil {
					w.cell.Status(p.Slot, task.Running)
				}
			}
		}
	}
}

// Field case 40: three nodes with four tasks each, and a fourth comes. The moves are made step by
// step, by whoever asks, two at once here; never is more than one task down, at no revision,
// and what was begun when they stop asking half-way is finished.
func TestCase40RebalanceStepByStep(t *testing.T) {
	w := serve(t, nil)
	for i := range 3 {
		w.attach(fmt.Sprintf("n%d", i), "s1")
	}
	w.submit(celltest.Job{Name: "web", Kind: "service", Count: 12, CPU: 200})
	for i := range 12 {
		w.cell.Status(w.cell.Place("web", i, fmt.Sprintf("n%d", i%3)).Slot, task.Running)
	}
	w.attach("n3", "s1")
	start := w.seen()

	m := mirror.New(w.store, zap.NewNop())
	runner := schedulers.New(schedulers.Config{Cell: m, Store: w.store, Scheduler: service.New(), Name: "service", Instance: "a", Log: zap.NewNop()})
	ctx, cancel := context.WithCancel(w.ctx)
	scheduling, stop := context.WithCancel(w.ctx)
	var mirroring, running sync.WaitGroup
	mirroring.Go(func() { _ = m.Run(ctx) })
	running.Go(func() { _ = runner.Run(scheduling) })
	mirroring.Go(func() { agents(ctx, w) })
	defer func() { stop(); running.Wait(); cancel(); mirroring.Wait() }()

	name := celltest.Name("web")
	up := func(s *cellstate.Snapshot) (n int) {
		b := s.BudgetOf(s.Job(name), "main", 1)
		return 12 - b.Down
	}
	poll := func(what string, holds func() bool) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !holds() {
			select {
			case <-tick.C:
			case <-w.ctx.Done():
				t.Fatalf("still waiting for: %s", what)
			}
		}
	}
	moved := 0
	step := func() *ohmv1.RebalanceResponse {
		t.Helper()
		var answers [2]*ohmv1.RebalanceResponse
		var asking sync.WaitGroup
		for i := range answers {
			asking.Go(func() {
				resp, err := w.jobs.Rebalance(w.ctx, &ohmv1.RebalanceRequest{Job: "web"})
				if err != nil {
					t.Errorf("step: %v", err)
				}
				answers[i] = resp
			})
		}
		asking.Wait()
		for _, a := range answers {
			if a.GetMoved() != nil {
				moved++
			}
		}
		return answers[0]
	}
	poll("a step is made", func() bool { step(); return moved > 0 })
	poll("nobody asks any more, and all that was begun is finished", func() bool { return up(w.seen()) == 12 })
	if on := w.seen().Node("n3").Count(); on != 1 || moved != 1 {
		t.Errorf("half-way %d tasks are on the new node after %d moves; want 1", on, moved)
	}
	poll("they are spread again", func() bool { return step().GetDone() })
	poll("all run", func() bool { return up(w.seen()) == 12 })
	for i := range 4 {
		if on := w.seen().Node(cellstate.NodeName(fmt.Sprintf("n%d", i))).Count(); on != 3 {
			t.Errorf("%d tasks on node n%d; want 3", on, i)
		}
	}
	if moved != 3 {
		t.Errorf("%d moves; want 3", moved)
	}
	present := w.seen().Revision()
	s := start
	for batch, err := range w.store.Changes(w.ctx, start.Revision()) {
		if err != nil {
			t.Fatal(err)
		}
		if s, _, err = s.Apply(batch); err != nil {
			t.Fatal(err)
		}
		if n := up(s); n < 11 {
			t.Errorf("revision %d: %d of 12 tasks are up", s.Revision(), n)
		}
		if batch.Revision >= present {
			break
		}
	}
}

// A job's budget binds steps, too, and what they say of other jobs is why not.
func TestRebalanceRefuses(t *testing.T) {
	w := serve(t, nil)
	w.attach("n1", "s1")
	w.submit(celltest.Job{Name: "web", Kind: "service", Count: 4, CPU: 200, Disruption: &ohmv1.Disruption{MaxUnavailable: 2}})
	w.submit(celltest.Job{Name: "sum", CPU: 200})
	for i := range 4 {
		w.cell.Status(w.cell.Place("web", i, "n1").Slot, task.Running)
	}
	w.attach("n2", "s1")
	w.seen()
	ask := func(atOnce int32) *ohmv1.RebalanceResponse {
		t.Helper()
		resp, err := w.jobs.Rebalance(w.ctx, &ohmv1.RebalanceRequest{Job: "web", AtOnce: atOnce})
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	if r := ask(1); r.GetMoved().GetFrom() != "n1" || r.GetMoved().GetTo() != "n2" {
		t.Errorf("the first step is %v", r)
	}
	if r := ask(1); r.GetMoved() != nil || r.GetDone() || r.GetWaits() != "1 of at most 1 tasks of group main of job web are down" {
		t.Errorf("then %v", r)
	}
	if r := ask(9); r.GetMoved() == nil {
		t.Errorf("with two at once %v", r)
	}
	if r := ask(9); r.GetMoved() != nil || r.GetDone() {
		t.Errorf("beyond the budget %v", r)
	}
	_, err := w.jobs.Rebalance(w.ctx, &ohmv1.RebalanceRequest{Job: "sum"})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = w.jobs.Rebalance(w.ctx, &ohmv1.RebalanceRequest{Job: "nothing"})
	wantCode(t, err, codes.NotFound)
	_, err = w.jobs.Rebalance(w.ctx, &ohmv1.RebalanceRequest{Job: "web", AtOnce: -1})
	wantCode(t, err, codes.InvalidArgument)
}
