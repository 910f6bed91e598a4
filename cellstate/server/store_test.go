package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/server"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// fullStore takes no writes until it is cured.
type fullStore struct {
	*memstore.Store
	full atomic.Bool
}

func (s *fullStore) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	if s.full.Load() {
		return cellstate.Outcome{}, fmt.Errorf("%w: of quota", cellstate.ErrNoSpace)
	}
	return s.Store.Commit(ctx, writes...)
}

func (s *fullStore) Status(context.Context) (*ohmv1.StoreStatusResponse, error) {
	return &ohmv1.StoreStatusResponse{Revision: 7, Findings: []string{"it is full"}}, nil
}

func (s *fullStore) Cure(_ context.Context, told func(*ohmv1.StoreStep)) error {
	told(&ohmv1.StoreStep{Step: "compact"})
	told(&ohmv1.StoreStep{Step: "disarm"})
	s.full.Store(false)
	return nil
}

func (s *fullStore) Defragment(context.Context, func(*ohmv1.StoreStep)) error { return nil }

// A full store refuses what writes and says what to do; what reads goes on; a cure is told
// step by step.
func TestAFullStore(t *testing.T) {
	store := &fullStore{Store: memstore.New()}
	w := serve(t, store.Store, func(c *server.Config) { c.Store = store })
	w.cell.Node(celltest.Node{Name: "n1"})
	w.seen()
	store.full.Store(true)
	submit := func() error {
		_, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(celltest.Job{Name: "a", Scheduler: "batch"})}})
		return err
	}
	err := submit()
	wantCode(t, err, codes.FailedPrecondition)
	if !strings.Contains(err.Error(), "the store is full") || !strings.Contains(err.Error(), "`ohm store doctor`") {
		t.Error(err)
	}
	if list, err := w.nodes.List(w.ctx, &ohmv1.ListNodesRequest{}); err != nil || len(list.GetNodes()) != 1 {
		t.Errorf("%v, %v", list, err)
	}

	if s, err := w.info.StoreStatus(w.ctx, &ohmv1.StoreStatusRequest{}); err != nil || s.GetRevision() != 7 || len(s.GetFindings()) != 1 {
		t.Errorf("%v, %v", s, err)
	}
	steps, err := w.info.CureStore(w.ctx, &ohmv1.CureStoreRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"compact", "disarm"} {
		if step, err := steps.Recv(); err != nil || step.GetStep() != want {
			t.Fatalf("%v, %v, want %s", step, err, want)
		}
	}
	if _, err := steps.Recv(); err == nil {
		t.Error("a step too many")
	}
	if err := submit(); err != nil {
		t.Error(err)
	}
}

func TestAStoreInMemoryNeedsNoCare(t *testing.T) {
	w := serve(t, nil)
	_, err := w.info.StoreStatus(w.ctx, &ohmv1.StoreStatusRequest{})
	wantCode(t, err, codes.FailedPrecondition)
}
