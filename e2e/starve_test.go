package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	"github.com/ohmcell/ohm/cellstate/mirror"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// On a real store, too, a scheduler whose decisions take 500 times as long as those of two
// others finishes its jobs on a cell that these keep full now and then.
func TestNothingStarvesOnEtcd(t *testing.T) {
	server, err := embedded.Start(t.Context(), filepath.Join(shortDir(t), "store"), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	beside := func(what string, run func(context.Context) error) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	open := func(sender string) (*etcdstore.Store, *mirror.Mirror) {
		store, err := etcdstore.Open(t.Context(), etcdstore.Config{
			Endpoints: []string{server.Endpoint()}, Sender: sender, MaxTxnOps: embedded.MaxTxnOps, MaxRequestBytes: embedded.MaxRequestBytes,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		m := mirror.New(store, zap.NewNop())
		beside("mirror of "+sender, m.Run)
		return store, m
	}
	run := func(name string, decides time.Duration) *schedulers.Runner {
		store, m := open(name)
		r := schedulers.New(schedulers.Config{
			Cell: m, Store: store, Name: name, Instance: "a", Scheduler: schedtest.Takes{Policy: schedtest.FirstFit{}, Time: decides}, HoldAfter: 2,
		})
		beside(name, r.Run)
		return r
	}
	store, m := open("users")
	cell := celltest.New(t, store)
	for _, n := range []string{"n1", "n2", "n3", "n4"} {
		cell.Node(celltest.Node{Name: n, CPU: 4000})
		cell.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(n)), Value: &ohmv1.Alive{Node: n}})
	}
	run("quick1", time.Millisecond)
	run("quick2", time.Millisecond)
	slow := run("slow", 500*time.Millisecond)
	waves := func() int { return []int{14, 22}[time.Now().UnixMilli()/170%2] }
	churn := &schedtest.Churn{Store: store, Mirror: m, Of: []string{"quick1", "quick2"}, Jobs: waves, Life: 150 * time.Millisecond, Tick: 10 * time.Millisecond}
	beside("users and agents", churn.Run)
	if _, err := m.WaitSnapshot(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the cell is full", func() bool {
		n := 0
		for row := range m.Snapshot().Nodes() {
			n += row.Count()
		}
		return n == 16
	})
	cell.Job(celltest.Job{Name: "four", Scheduler: "slow", Count: 4, CPU: 1000})
	cell.Job(celltest.Job{Name: "gang", Scheduler: "slow", Kind: "ml", Gang: true, Count: 2, CPU: 500})
	began := time.Now()
	within(t, patience, "the slow scheduler's jobs have finished", func() bool {
		for _, name := range []string{"four", "gang"} {
			if !schedtest.Finished(m.Snapshot(), name) {
				return false
			}
		}
		return true
	})
	t.Logf("finished after %v: %+v", time.Since(began), slow.Stats())
}
