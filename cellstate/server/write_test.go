package server_test

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/server"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// lateStore tells nothing of what has changed, once it is told to be late, until the
// server has asked it for something.
type lateStore struct {
	*memstore.Store
	late  atomic.Bool
	once  sync.Once
	asked chan struct{}
}

func (s *lateStore) Changes(ctx context.Context, after cellstate.Revision) iter.Seq2[cellstate.Batch, error] {
	return func(yield func(cellstate.Batch, error) bool) {
		for batch, err := range s.Store.Changes(ctx, after) {
			if s.late.Load() {
				select {
				case <-s.asked:
				case <-ctx.Done():
				}
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

func (s *lateStore) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	if s.late.Load() {
		s.once.Do(func() { close(s.asked) })
	}
	return s.Store.Commit(ctx, writes...)
}

// What somebody else has written before a request came is not denied because this
// server has not heard of it yet.
func TestRefusalsOnLateSnapshots(t *testing.T) {
	for name, row := range map[string]struct {
		write func(*world)
		ask   func(*world) error
		then  codes.Code
	}{
		"a scheduler that has just registered": {
			func(w *world) {
				w.cell.Put(cellstate.Record{Key: cellstate.SchedulerKey("mine"), Value: &ohmv1.Scheduler{Name: "mine"}})
			},
			func(w *world) error {
				_, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{celltest.Job{Name: "j", Scheduler: "mine", CPU: 100}.Proto()}})
				return err
			},
			codes.OK,
		},
		"a job that was submitted to another server": {
			func(w *world) { w.cell.Job(celltest.Job{Name: "j"}) },
			func(w *world) error {
				_, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Namespace: "default", Jobs: []string{"j"}})
				return err
			},
			codes.OK,
		},
		"what is really not there": {
			func(*world) {},
			func(w *world) error {
				_, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Namespace: "default", Jobs: []string{"j"}})
				return err
			},
			codes.NotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &lateStore{Store: memstore.New(), asked: make(chan struct{})}
			w := serve(t, store.Store, func(c *server.Config) { c.Store = store })
			store.late.Store(true)
			row.write(w)
			wantCode(t, row.ask(w), row.then)
		})
	}
}
