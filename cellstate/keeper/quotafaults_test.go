package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// late is a store some of whose requests get no answer, and are applied at some time, or
// not at all.
type late struct {
	*memstore.Store
	roll func(int) int // 0 for a request that gets none
	lost *atomic.Int64
	ctx  context.Context
}

func (l late) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	if l.roll(8) > 0 {
		return l.Store.Commit(ctx, writes...)
	}
	l.lost.Add(1)
	if wait := l.roll(1000); wait > 200 {
		go func() {
			select {
			case <-time.After(time.Duration(wait-200) * 5 * time.Millisecond):
				_, _ = l.Store.Commit(l.ctx, writes...)
			case <-l.ctx.Done():
			}
		}()
	}
	return cellstate.Outcome{}, cellstate.ErrUnknown
}

// Replies are lost, schedulers die and come back under the same name while their
// predecessor lives, the quota moves: the audit finds nothing, and in the end nothing is
// stranded.
func TestQuotaUnderFaults(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { quotaUnderFaults(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func quotaUnderFaults(t *testing.T, chance *rand.Rand) {
	var mu sync.Mutex // guards chance and calm
	calm := false
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return chance.IntN(n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	cell := schedtest.New(t)
	network := late{cell.Store, func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		if calm {
			return 1
		}
		return chance.IntN(n)
	}, new(atomic.Int64), ctx}
	start := cell.Snapshot()
	keep(t, network)
	cell.Up(celltest.Node{Name: "n1", CPU: 100_000}, celltest.Node{Name: "n2", CPU: 100_000})
	cell.Quota(scope, celltest.CPU(10_000))
	limit := cellstate.Scope{Kind: cellstate.SchedulerScope, Name: "batch"}
	cell.Quota(limit, celltest.CPU(7000))
	set := func(scope cellstate.Scope, milli int64) { // again until it stands: others put shares, replies are lost
		for {
			w, changed := cellstate.QuotaWrite(cell.Snapshot(), scope, &ohmv1.Quota{Limit: celltest.CPU(milli)})
			if !changed {
				return
			}
			if _, err := cell.Store.Commit(t.Context(), w); err != nil && !errors.Is(err, cellstate.ErrUnknown) {
				t.Fatal(err)
			}
		}
	}
	running := map[[2]string]func(){}
	run := func(name, instance string) (stop func()) {
		m := mirror.New(network, zap.NewNop())
		r := schedulers.New(schedulers.Config{
			Cell: m, Store: network, Scheduler: schedtest.FirstFit{}, Name: name, Instance: instance,
			Times: schedulers.Times{Lease: 2 * time.Second, Sweep: 3 * time.Second},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = m.Run(ctx) })
		running.Go(func() { _ = r.Run(ctx) })
		stop = sync.OnceFunc(func() { cancel(); running.Wait() })
		t.Cleanup(stop)
		return stop
	}
	who := [][2]string{{"batch", "a"}, {"batch", "b"}, {"service", "a"}}
	for _, w := range who {
		running[w] = run(w[0], w[1])
	}
	jobs := 0
	for range 60 {
		switch roll(8) {
		case 0, 1, 2:
			jobs++
			w := who[roll(len(who))]
			cell.Submit(celltest.Job{Name: fmt.Sprint("j", jobs), Scheduler: w[0], Count: 1 + roll(6), CPU: int64(500 * (1 + roll(4)))})
		case 3, 4, 5:
			endSome(cell, roll)
		case 6:
			if roll(2) == 0 {
				set(scope, int64(1000*(4+roll(10))))
			} else {
				set(limit, int64(1000*(3+roll(6))))
			}
		case 7:
			w := who[roll(len(who))]
			old := running[w]
			if roll(2) == 0 {
				old()
				running[w] = run(w[0], w[1])
			} else { // the predecessor goes on for a while
				running[w] = run(w[0], w[1])
				<-time.After(time.Duration(roll(1000)) * time.Millisecond)
				old()
			}
		}
		<-time.After(time.Duration(roll(300)) * time.Millisecond)
	}
	mu.Lock()
	calm = true
	mu.Unlock()
	set(scope, 6000)
	for range 400 {
		if endSome(cell, func(int) int { return 1 }); waiting(cell.Snapshot()) == 0 {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	if n := waiting(cell.Snapshot()); n > 0 {
		s := cell.Snapshot()
		for q := range s.Quotas() {
			t.Logf("%v: %+v", q.Scope, s.Deal(q))
			for _, share := range q.Shares {
				t.Logf("%+v", share)
			}
		}
		t.Fatalf("%d tasks are stranded", n)
	}
	if network.lost.Load() == 0 {
		t.Error("no reply was lost")
	}
	schedtest.Audited(t, cell.Store, start)
}

// endSome ends some of the live tasks.
func endSome(cell *schedtest.Cell, roll func(int) int) {
	for n := range cell.Snapshot().Nodes() {
		for _, p := range n.Placements() {
			if roll(2) == 1 {
				s := cell.Snapshot()
				if row := s.Job(p.Slot.JobName()).Task(p.Slot); row != nil && row.Placement != nil {
					cell.Release(p.Slot, task.Succeeded)
				}
			}
		}
	}
}

// waiting counts the slots that have never been placed.
func waiting(s *cellstate.Snapshot) (n int) {
	for j := range s.Jobs() {
		for _, g := range j.Record.GetSpec().GetGroups() {
			n += int(g.GetCount())
		}
		for range j.Tasks {
			n--
		}
	}
	return n
}
