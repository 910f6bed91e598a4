package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/server"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestToken(t *testing.T) {
	w := serve(t, nil, func(c *server.Config) { c.Token = "secret" })
	with := func(value string) context.Context {
		return metadata.AppendToOutgoingContext(w.ctx, "authorization", value)
	}
	for value, want := range map[string]codes.Code{
		"Bearer secret":  codes.OK,
		"Bearer secret2": codes.Unauthenticated,
		"secret":         codes.Unauthenticated,
		"Bearer ":        codes.Unauthenticated,
	} {
		_, err := w.info.Info(with(value), &ohmv1.InfoRequest{})
		wantCode(t, err, want)
		stream, err := w.jobs.Watch(with(value), &ohmv1.GetJobRequest{Job: "none"})
		if err == nil {
			_, err = stream.Recv()
		}
		if want == codes.OK {
			want = codes.NotFound
		}
		wantCode(t, err, want)
	}
	_, err := w.info.Info(w.ctx, &ohmv1.InfoRequest{})
	wantCode(t, err, codes.Unauthenticated)
}

// silentStore answers no commit once it is told to be silent, whatever its context says,
// until it is released.
type silentStore struct {
	*memstore.Store
	silent, release chan struct{}
}

func (s *silentStore) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	select {
	case <-s.silent:
		<-s.release
		return cellstate.Outcome{}, cellstate.ErrUnreachable
	default:
		return s.Store.Commit(ctx, writes...)
	}
}

// While the store does not answer, writes say so within a bounded time and reads go on.
func TestSilentStore(t *testing.T) {
	store := &silentStore{memstore.New(), make(chan struct{}), make(chan struct{})}
	w := serve(t, store.Store, func(c *server.Config) { c.Store, c.Limits.Store = store, 500*time.Millisecond })
	t.Cleanup(func() { close(store.release) })
	w.submit(celltest.Job{Name: "a"})
	close(store.silent)
	began := time.Now()
	_, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(celltest.Job{Name: "b"})}})
	wantCode(t, err, codes.Unavailable)
	_, err = w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"a"}})
	wantCode(t, err, codes.Unavailable)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("two refusals took %v", took)
	}
	got, err := w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "a"})
	if err != nil || got.GetStatus().GetState() != "Pending" {
		t.Fatalf("%v, %v", got, err)
	}
	_, err = w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "b"})
	wantCode(t, err, codes.NotFound)
}

// A report outlives a time in which the store does not answer.
func TestReportsWaitForTheStore(t *testing.T) {
	failures := make(chan struct{}, 2)
	failures <- struct{}{}
	failures <- struct{}{}
	store := memstore.New(memstore.DropReplies(func(writes []cellstate.Write) bool {
		for _, r := range writes[0].Records {
			if _, is := r.Value.(*ohmv1.Ended); is {
				select {
				case <-failures:
					return true
				default:
				}
			}
		}
		return false
	}))
	w := serve(t, store)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a", Count: 2})
	w.cell.Place("a", 0, "n1")
	w.cell.Place("a", 1, "n1")
	a.until("assignments", func() bool { return len(a.want) == 2 })
	a.report(state(a.assignment("a/main/0"), task.Succeeded), state(a.assignment("a/main/1"), task.Failed))
	a.until("removal", func() bool { return len(a.want) == 0 })
	s := w.cell.Snapshot()
	if one, two := taskRow(s, "a", 0), taskRow(s, "a", 1); len(one.Ended) != 1 || len(two.Ended) != 1 {
		t.Fatalf("%d and %d ended attempts", len(one.Ended), len(two.Ended))
	}
}

func TestCell(t *testing.T) {
	w := serve(t, nil, func(c *server.Config) { c.Etcd = server.Etcd{Endpoints: []string{"unix://x"}, MaxTxnOps: 77} })
	w.cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "i1"), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: "i1"}})
	w.submit(celltest.Job{Name: "a", Count: 3})
	w.cell.Node(celltest.Node{Name: "n1"})
	w.cell.Place("a", 0, "n1")
	at := w.seen().Revision()
	info, err := w.info.Info(w.ctx, &ohmv1.InfoRequest{})
	if err != nil || info.GetCell() != "test" || info.GetServer() != "s1" || info.GetRevision() < int64(at) || len(info.GetEtcd()) != 1 || info.GetEtcdMaxTxnOps() != 77 {
		t.Errorf("info: %v, %v", info, err)
	}
	list, err := w.info.ListSchedulers(w.ctx, &ohmv1.ListSchedulersRequest{})
	if err != nil || len(list.GetSchedulers()) != 4 {
		t.Fatalf("%v, %v", list, err)
	}
	batch, ml := list.GetSchedulers()[0], list.GetSchedulers()[1]
	if batch.GetState() != "Live" || batch.GetJobs() != 1 || batch.GetWaiting() != 2 || !batch.GetBuiltIn() || batch.GetInstances()[0] != "i1" {
		t.Errorf("batch: %v", batch)
	}
	if ml.GetState() != "NotSeen" || ml.GetJobs() != 0 || ml.GetScheduler() != "ml" {
		t.Errorf("ml: %v", ml)
	}
}

// gauges are the values that a scrape finds, by name and labels.
func gauges(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// Field case 103: gauges are recounted, so they are right after whatever happened.
func TestMetricsAreRecounted(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	for _, name := range []string{"a", "b", "c"} {
		w.submit(celltest.Job{Name: name, CPU: 1000, Memory: 3e9})
	}
	w.seen()
	check := func(want map[string]float64) {
		t.Helper()
		got := gauges(t, w.server.Collector())
		for name, v := range want {
			if g, ok := got[name]; !ok || g != v {
				t.Errorf("%s is %v (%v), want %v", name, g, ok, v)
			}
		}
	}
	check(map[string]float64{
		"ohm_waiting_slots batch": 3, "ohm_waiting_cpu_cores batch": 3, "ohm_waiting_memory_bytes batch": 9e9,
		"ohm_waiting_slots ml": 0, "ohm_jobs Pending": 3, "ohm_nodes Lost": 1, "ohm_nodes Ready": 0, "ohm_placements": 0,
		"ohm_server_requests_total OK /ohm.v1.Jobs/Submit": 3,
	})
	for _, name := range []string{"a", "b", "c"} {
		p := w.cell.Place(name, 0, "n1")
		w.cell.Release(p.Slot, task.Succeeded)
	}
	w.seen()
	check(map[string]float64{
		"ohm_waiting_slots batch": 0, "ohm_waiting_cpu_cores batch": 0, "ohm_waiting_memory_bytes batch": 0,
		"ohm_jobs Succeeded": 3, "ohm_jobs Pending": 0, "ohm_revision": float64(w.seen().Revision()),
	})
}
