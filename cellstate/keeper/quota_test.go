package keeper_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/keeper"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

var scope = celltest.Namespace("default")

// inQuota runs test on a cell with a keeper and a node of 100 cores, in a bubble of its own
// time, and audits what happened.
func inQuota(t *testing.T, test func(cell *schedtest.Cell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cell := schedtest.New(t)
		start := cell.Snapshot()
		keep(t, cell.Store)
		cell.Up(celltest.Node{Name: "n1", CPU: 100_000})
		test(cell)
		schedtest.Audited(t, cell.Store, start)
	})
}

// keep runs a keeper until the test ends.
func keep(t *testing.T, store interface {
	keeper.Store
	cellstate.Store
}) {
	m := mirror.New(store, zap.NewNop())
	k := keeper.New(keeper.Config{Store: store, Mirror: m, Server: "s1"})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	running.Go(func() { _ = k.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

func placed(job string, n int) func(*cellstate.Snapshot) bool {
	return func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, job) == n }
}

func used(s *cellstate.Snapshot) int64 {
	if q := s.Quota(scope); q != nil {
		return q.Used()[0]
	}
	return 0
}

func word(s *cellstate.Snapshot, job string) string { return schedtest.Word(s, job).GetMessage() }

// end ends the live tasks of a job.
func end(cell *schedtest.Cell, job string, n int) {
	for _, t := range cell.Snapshot().Job(celltest.Name(job)).Tasks {
		if t.Placement != nil && n > 0 {
			cell.Release(t.Slot, task.Succeeded)
			n--
		}
	}
}

func stopped(j *ohmv1.Job) { j.Stopped = true }

func TestQuotaIsKept(t *testing.T) {
	inQuota(t, func(cell *schedtest.Cell) {
		cell.Quota(scope, celltest.CPU(10_000))
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "j", Count: 12, CPU: 1000})
		cell.Until("ten of twelve are placed, and the others say why", func(s *cellstate.Snapshot) bool {
			return placed("j", 10)(s) && word(s, "j") ==
				"main: 2 tasks waiting for the quota of namespace default: asking for 1 cpu each of a quota of 10, the rest is taken"
		})
		end(cell, "j", 3)
		cell.Within(time.Second, "the last two are placed at once", placed("j", 9))
		cell.Submit(celltest.Job{Name: "big", Count: 1, CPU: 11_000})
		cell.Until("it can never run, and says so", func(s *cellstate.Snapshot) bool {
			return strings.Contains(word(s, "big"), "can never run under the quota of namespace default: asking for 11 cpu each of a quota of 10")
		})
		cell.Quota(scope, celltest.CPU(30_000))
		cell.Within(time.Second, "a larger quota wakes it", placed("big", 1))
	})
}

// A gang of 8 in a quota of 10 that two schedulers have split five and five.
func TestGangGathersItsRoom(t *testing.T) {
	inQuota(t, func(cell *schedtest.Cell) {
		cell.Quota(scope, celltest.CPU(10_000))
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Run("ml", "b", schedtest.FirstFit{})
		split := func() {
			t.Helper()
			for _, scheduler := range []string{"batch", "ml"} {
				cell.Submit(celltest.Job{Name: scheduler, Scheduler: scheduler, Count: 10, CPU: 1000})
			}
			cell.Until("both have five", func(s *cellstate.Snapshot) bool { return placed("batch", 5)(s) && placed("ml", 5)(s) })
		}
		split()
		for _, job := range []string{"batch", "ml"} { // what waits goes, what runs ends
			cell.Mark(celltest.Name(job), stopped)
			end(cell, job, 5)
		}
		cell.Until("nobody wants more", func(s *cellstate.Snapshot) bool {
			for _, share := range s.Quota(scope).Shares {
				if share.Record.GetWanted() != nil {
					return false
				}
			}
			return used(s) == 0
		})
		s := cell.Snapshot()
		if granted := s.Quota(scope).Granted()[0]; granted != 10_000 {
			t.Fatalf("granted %d, want all to be", granted)
		}
		cell.Submit(celltest.Job{Name: "g", Kind: "ml", Gang: true, Count: 8, CPU: 1000})
		cell.Within(time.Second, "the gang stands", placed("g", 8))
		// And one more, while the other scheduler has endless small tasks.
		cell.Submit(celltest.Job{Name: "many", Count: 1000, CPU: 1000})
		cell.Until("the small ones take the rest", placed("many", 2))
		cell.Submit(celltest.Job{Name: "g2", Kind: "ml", Gang: true, Count: 8, CPU: 1000})
		end(cell, "g", 8)
		s = cell.Until("the small ones are at least at their half", func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, "many") >= 2 })
		for range 20 {
			if placed("g2", 8)(s) {
				break
			}
			end(cell, "many", 1)
			<-time.After(time.Second)
			s = cell.Snapshot()
		}
		cell.Until("the second gang stands", placed("g2", 8))
	})
}

// A scheduler that dies with half of the quota strands nothing of it.
func TestDeadSchedulerStrandsNothing(t *testing.T) {
	inQuota(t, func(cell *schedtest.Cell) {
		cell.Quota(scope, celltest.CPU(10_000))
		a := cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "j", Count: 10, CPU: 1000})
		cell.Until("a has all", placed("j", 10))
		end(cell, "j", 4)
		a.Stop()
		cell.Run("service", "b", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "k", Scheduler: "service", Count: 10, CPU: 1000})
		s := cell.Within(time.Second, "b has what a's tasks leave", placed("k", 4))
		if share := s.Quota(scope).Share(celltest.Account(scope, "a").Spender); share.Granted()[0] != 6000 {
			t.Errorf("a has a share of %v still", share.Granted())
		}
		end(cell, "j", 6)
		cell.Within(time.Second, "b has the rest", placed("k", 10))
		cell.Until("a's share is gone", func(s *cellstate.Snapshot) bool { return len(s.Quota(scope).Shares) == 1 })
	})
}

// Field case 89: a namespace has a quota of no GPU; freed CPU wakes what waits for it.
func TestCase89(t *testing.T) {
	inQuota(t, func(cell *schedtest.Cell) {
		none := int64(0)
		limit := celltest.CPU(1000)
		limit.CpuMilli, limit.GpuMilli = nil, &none
		cell.Quota(scope, limit)
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "full", CPU: 100_000})
		cell.Until("the node is full", placed("full", 1))
		cell.Submit(celltest.Job{Name: "j", CPU: 1000})
		cell.Submit(celltest.Job{Name: "gpu", GPUs: 1})
		cell.Until("one waits for CPU, one never runs", func(s *cellstate.Snapshot) bool {
			return strings.Contains(word(s, "j"), "short of cpu") && strings.Contains(word(s, "gpu"), "can never run")
		})
		end(cell, "full", 1)
		cell.Within(time.Second, "the job starts", placed("j", 1))
	})
}

// Nothing that runs is killed, and nothing starts before it fits.
func TestQuotaIsLowered(t *testing.T) {
	inQuota(t, func(cell *schedtest.Cell) {
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Run("service", "b", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "j", Count: 6, CPU: 1000})
		cell.Submit(celltest.Job{Name: "k", Scheduler: "service", Count: 6, CPU: 1000})
		cell.Until("all run without a quota", func(s *cellstate.Snapshot) bool { return placed("j", 6)(s) && placed("k", 6)(s) })
		at := cell.Quota(scope, celltest.CPU(8000))
		cell.Submit(celltest.Job{Name: "more", Count: 4, CPU: 1000})
		cell.Until("it waits", func(s *cellstate.Snapshot) bool { return strings.Contains(word(s, "more"), "waiting for the quota") })
		if s := cell.Snapshot(); used(s) != 12_000 || schedtest.Placed(s, "more") != 0 {
			t.Fatalf("used %d since %d", used(s), at)
		}
		end(cell, "k", 4)
		<-time.After(15 * time.Second) // longer than the sweep
		if s := cell.Snapshot(); schedtest.Placed(s, "more") != 0 {
			t.Fatal("one started beside the last that fits")
		}
		end(cell, "k", 1)
		cell.Within(time.Second, "one fits", placed("more", 1))
		cell.Quota(scope, celltest.CPU(4000))
		end(cell, "j", 4)
		cell.Within(time.Second, "what is left is what fits", func(s *cellstate.Snapshot) bool { return used(s) == 4000 })
		cell.Write(cellstate.QuotaRemoval(cell.Snapshot().Quota(scope)))
		cell.Within(time.Second, "without a quota all run", placed("more", 4))
	})
}

// A limit of a scheduler bounds it over all namespaces, and nobody else.
func TestSchedulerLimit(t *testing.T) {
	inQuota(t, func(cell *schedtest.Cell) {
		cell.Quota(cellstate.Scope{Kind: cellstate.SchedulerScope, Name: "batch"}, celltest.CPU(3000))
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Run("batch", "b", schedtest.FirstFit{})
		cell.Run("service", "c", schedtest.FirstFit{})
		for i := range 4 {
			cell.Submit(celltest.Job{Name: "j", Namespace: fmt.Sprint("ns", i), Count: 2, CPU: 1000})
		}
		cell.Submit(celltest.Job{Name: "k", Scheduler: "service", Count: 6, CPU: 1000})
		cell.Until("the other one is free, three tasks run", func(s *cellstate.Snapshot) bool {
			n := 0
			for i := range 4 {
				if row := s.Job(cellstate.JobName{Namespace: fmt.Sprint("ns", i), Name: "j"}); row != nil {
					for _, t := range row.Tasks {
						if t.Placement != nil {
							n++
						}
					}
				}
			}
			return n == 3 && placed("k", 6)(s)
		})
	})
}

// Field case 91, as far as quotas go: two want all that one has; both get their part as
// its tasks end, and it starts no more than its own.
func TestSharesBecomeFair(t *testing.T) {
	inQuota(t, func(cell *schedtest.Cell) {
		cell.Quota(scope, celltest.CPU(9000))
		for _, name := range []string{"batch", "service", "ml"} {
			cell.Run(name, "a", schedtest.FirstFit{})
		}
		cell.Submit(celltest.Job{Name: "batch", Count: 100, CPU: 1000})
		cell.Until("one has all", placed("batch", 9))
		cell.Submit(celltest.Job{Name: "service", Scheduler: "service", Count: 9, CPU: 1000})
		cell.Submit(celltest.Job{Name: "ml", Scheduler: "ml", Count: 9, CPU: 1000})
		<-time.After(time.Second)
		for range 6 {
			end(cell, "batch", 1)
			<-time.After(time.Second)
		}
		s := cell.Snapshot()
		for _, job := range []string{"batch", "service", "ml"} {
			if n := schedtest.Placed(s, job); n != 3 {
				t.Errorf("%s has %d", job, n)
			}
		}
	})
}
