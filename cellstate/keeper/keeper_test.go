package keeper

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a cell with a mirror, in a bubble of its own time.
type house struct {
	*celltest.Cell
	t      *testing.T
	store  *memstore.Store
	mirror *mirror.Mirror
	ctx    context.Context
}

// inHouse runs test in a bubble: time passes only when everything waits.
func inHouse(t *testing.T, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		h := &house{Cell: celltest.New(t, store), t: t, store: store, mirror: mirror.New(store, zap.NewNop()), ctx: ctx}
		var running sync.WaitGroup
		running.Go(func() { _ = h.mirror.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		for _, kind := range []string{"batch", "service", "ml", "system"} {
			h.Put(cellstate.Record{Key: cellstate.SchedulerKey(kind), Value: &ohmv1.Scheduler{Name: kind}})
		}
		test(h)
	})
}

func (h *house) keeper(server string, limits Limits) *Keeper {
	return New(Config{Store: h.store, Mirror: h.mirror, Server: server, Limits: limits})
}

// run runs a keeper until the returned function is called.
func (h *house) run(k *Keeper) (stop func()) {
	ctx, cancel := context.WithCancel(h.ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = k.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	h.t.Cleanup(stop)
	return stop
}

// pass lets time pass.
func (h *house) pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func (h *house) alive(node string) {
	h.t.Helper()
	h.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(node)), Value: &ohmv1.Alive{Node: node, Server: "s", Session: "x"}})
}

func (h *house) away(node string) {
	h.t.Helper()
	n := h.Snapshot().Node(cellstate.NodeName(node))
	h.Put(cellstate.Record{Key: cellstate.AliveKey(n.Name), Read: n.AliveRevision})
}

// nodes makes nodes n0, n1, … with sessions, and a service job with a task on each.
func (h *house) nodes(n int) {
	h.t.Helper()
	h.Job(celltest.Job{Name: "web", Kind: "service", Count: n})
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		h.Node(celltest.Node{Name: name})
		h.alive(name)
		h.Place("web", i, name)
	}
}

// lost counts the tasks of web that were lost.
func (h *house) lost() (n int) {
	for _, t := range h.Snapshot().Job(celltest.Name("web")).Tasks {
		for _, e := range t.Ended {
			if e.GetStatus().GetState() == task.Lost && e.GetStatus().GetCause() == task.NodeLost {
				n++
			}
		}
	}
	return n
}
