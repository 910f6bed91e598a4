package schedulers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// robbed is a policy whose claims come too late, the first times: before they commit,
// tasks of the job "thief" have their room, for a moment. Within held room nobody robs it;
// within is called with that decision.
type robbed struct {
	cell   *schedtest.Cell
	times  int
	within func(schedulers.Input, *schedulers.Proposal)

	robberies atomic.Int32
}

func (r *robbed) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	out, err := schedtest.FirstFit{}.Schedule(ctx, in)
	s := r.cell.Snapshot()
	for n := range s.Nodes() {
		if len(n.Holds) > 0 {
			if r.within != nil {
				r.within(in, &out)
			}
			return out, err
		}
	}
	if len(out.Txns) == 0 || int(r.robberies.Load()) == r.times {
		return out, err
	}
	r.robberies.Add(1)
	for _, txn := range out.Txns {
		for _, c := range txn.Claims {
			n := s.Node(c.Node)
			if !slices.ContainsFunc(r.cell.Snapshot().Node(c.Node).Placements(), func(p *cellstate.Placement) bool { return p.GetSlot().GetJob() == "thief" }) {
				r.rob(string(n.Name), int(n.Name[1]-'1'))
			}
		}
	}
	return out, err
}

func (r *robbed) rob(node string, index int) {
	stolen := r.cell.Place("thief", index, node)
	time.AfterFunc(20*time.Millisecond, func() { r.cell.Release(stolen.Slot, task.Succeeded) })
}

// robbery is a cell of two nodes of 4 cores with a thief that wants 2.5 of each.
func robbery(cell *schedtest.Cell) {
	for _, n := range []string{"n1", "n2"} {
		cell.Up(celltest.Node{Name: n, CPU: 4000})
	}
	cell.Job(celltest.Job{Name: "thief", Scheduler: "nobody", Count: 2, CPU: 2500, Retries: 100})
}

// holds lists the transactions for which room is held.
func holds(s *cellstate.Snapshot) (txns []string) {
	for n := range s.Nodes() {
		for _, h := range n.Holds {
			if !slices.Contains(txns, h.GetTxn()) {
				txns = append(txns, h.GetTxn())
			}
		}
	}
	return txns
}

// After five losses room is held; whoever wants it meanwhile learns who has it; the
// decision that follows commits under the id of the hold, which ends with it.
func TestHoldAfterLosses(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		robbery(cell)
		other := cell.Run("other", "a", schedtest.FirstFit{})
		var held string
		policy := &robbed{cell: cell, times: 100}
		policy.within = func(in schedulers.Input, _ *schedulers.Proposal) {
			s := cell.Snapshot()
			held = holds(s)[0]
			cell.Job(celltest.Job{Name: "rival", Scheduler: "nobody", Count: 2, CPU: 3000})
			s = cell.Snapshot()
			rival := celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, celltest.Name("rival"), "main", 0), "n1"), celltest.Claim(s, celltest.Slot(s, celltest.Name("rival"), "main", 1), "n2"))
			if _, err := other.Mirror.WaitSnapshot(t.Context(), s.Revision()); err != nil {
				t.Error(err)
			}
			rival.Snapshot = in.Snapshot.Revision() - 10
			res, err := other.Mirror.Commit(t.Context(), rival)
			if err != nil || len(res[0].Conflicts) != 1 || len(res[0].Committed) != 1 {
				t.Errorf("the rival got %+v, error %v", res, err)
				return
			}
			if c := res[0].Conflicts[0]; c.Reason != cellstate.ReasonHold || c.Winner.GetTxn() != held || c.Winner.Slot.Task() != "j/main/0" || c.Winner.GetScheduler() != "batch" {
				t.Errorf("the rival lost to %+v", c)
			}
		}
		run := cell.Run("batch", "a", policy)
		cell.Submit(celltest.Job{Name: "j", CPU: 3000})
		s := cell.Until("it is placed", placed("j", 1))
		p := s.Job(celltest.Name("j")).Tasks[0].Placement
		if n := policy.robberies.Load(); n != schedulers.DefaultHoldAfter || len(conflicts(s, "batch")) != schedulers.DefaultHoldAfter {
			t.Errorf("%d robberies, conflicts %v", n, conflicts(s, "batch"))
		}
		if p.GetTxn() != held || run.Stats().Holds != 1 {
			t.Errorf("placed by %s, the hold was of %s", p.GetTxn(), held)
		}
		if left := holds(s); len(left) > 0 {
			t.Errorf("holds that are left: %v", left)
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// What the policy does not claim of held room is given back at once.
func TestHeldRoomIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		robbery(cell)
		var asked atomic.Int32
		policy := &robbed{cell: cell, times: schedulers.DefaultHoldAfter, within: func(_ schedulers.Input, out *schedulers.Proposal) {
			asked.Add(1)
			*out = schedulers.Proposal{}
		}}
		cell.Run("batch", "a", policy)
		cell.Submit(celltest.Job{Name: "j", CPU: 3000})
		cell.Until("it is placed by itself afterwards", placed("j", 1))
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times within held room", n)
		}
		if left := holds(cell.Snapshot()); len(left) > 0 {
			t.Errorf("holds that are left: %v", left)
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Field case 93: a scheduler that stands still (SIGSTOP, a policy that hangs) while room is
// held for it does not keep it for long, and does nobody else any harm before.
func TestCase93AStuckSchedulerHarmsItself(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		robbery(cell)
		cell.Run("service", "a", schedtest.FirstFit{})
		stuck, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		policy := &robbed{cell: cell, times: schedulers.DefaultHoldAfter, within: func(schedulers.Input, *schedulers.Proposal) {
			once.Do(func() {
				close(stuck)
				<-goOn
			})
		}}
		wake := sync.OnceFunc(func() { close(goOn) })
		cell.Run("batch", "a", policy)
		defer wake()
		cell.Submit(celltest.Job{Name: "j", CPU: 3000})
		<-stuck
		synctest.Wait()
		if held := holds(cell.Snapshot()); len(held) != 1 {
			t.Fatalf("holds of %v", held)
		}
		began := time.Now()
		for i := range 10 {
			cell.Submit(celltest.Job{Name: fmt.Sprint("beside-", i), Kind: "service", CPU: 100})
		}
		cell.Within(50*time.Millisecond, "what fits beside it is placed as if it were not there", func(s *cellstate.Snapshot) bool {
			n := 0
			for i := range 10 {
				n += schedtest.Placed(s, fmt.Sprint("beside-", i))
			}
			return n == 10
		})
		cell.Submit(celltest.Job{Name: "wants-it", Kind: "service", Count: 2, CPU: 3000})
		cell.Within(schedulers.DefaultTimes().Hold, "its hold ends with the lease", placed("wants-it", 2))
		if after := time.Since(began); after > 15*time.Second {
			t.Errorf("a quick scheduler that stands still has held room for %v", after)
		}
		wake()
		cell.Until("it has learnt that it came too late", func(s *cellstate.Snapshot) bool {
			return len(conflicts(s, "batch")) > schedulers.DefaultHoldAfter
		})
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Nothing is held for a task that does not fit, nor a part of a gang.
func TestNothingIsHeldForWhatDoesNotFit(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		robbery(cell)
		policy := &robbed{cell: cell, times: 100, within: func(schedulers.Input, *schedulers.Proposal) { t.Error("it was asked within held room") }}
		run := cell.Run("batch", "a", policy)
		cell.Job(celltest.Job{Name: "full", Scheduler: "nobody", CPU: 1500})
		name := cell.Submit(celltest.Job{Name: "j", Kind: "ml", Scheduler: "batch", Gang: true, Count: 2, CPU: 3000})
		once := false // the condition may be asked again before what it did shows
		cell.Until("its last race is lost", func(s *cellstate.Snapshot) bool {
			if int(policy.robberies.Load()) == schedulers.DefaultHoldAfter && schedtest.Placed(s, "thief") == 2 && !once {
				once = true
				cell.Place("full", 0, "n1") // beside the thief, and after it there is too little room
				return false
			}
			return len(s.Job(celltest.Name("full")).Tasks) > 0
		})
		<-time.After(time.Minute)
		s := cell.Snapshot()
		if got := holds(s); len(got) > 0 || run.Stats().Holds > 0 {
			t.Errorf("holds of %v", got)
		}
		if schedtest.Placed(s, name.Name) > 0 || schedtest.Word(s, "j") == nil {
			t.Errorf("placed %d, word %v", schedtest.Placed(s, "j"), schedtest.Word(s, "j"))
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Two that starve, whose gangs want the same nodes, all of them, both finish: a gang holds
// all or nothing, so neither waits for the other's half.
func TestTwoStarvingGangs(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		for i := range 4 {
			cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000})
		}
		quick := cell.Run("quick", "a", schedtest.Takes{Policy: schedtest.FirstFit{}, Time: time.Millisecond})
		var runs []*schedtest.Scheduler
		for _, name := range []string{"slow1", "slow2"} {
			runs = append(runs, cell.Run(name, "a", schedtest.Takes{Policy: schedtest.FirstFit{}, Time: 3 * time.Second}, func(c *schedulers.Config) { c.HoldAfter = 2 }))
			for i := range 2 {
				cell.Submit(celltest.Job{Name: fmt.Sprintf("%s-%d", name, i), Scheduler: name, Kind: "ml", Gang: true, Count: 4, CPU: 2000})
			}
		}
		// Half of the time there is room for one gang, and for no two.
		waves := func() int { return []int{4, 16}[time.Now().Unix()/2%2] }
		defer together(t, (&schedtest.Churn{Store: cell.Store, Mirror: quick.Mirror, Of: []string{"quick"}, Jobs: waves, Life: time.Second, Tick: 20 * time.Millisecond}).Run)()
		cell.Within(10*time.Minute, "all four gangs have run", finished("slow1-0", "slow1-1", "slow2-0", "slow2-1"))
		told := 0
		history(t, cell, func(s *cellstate.Snapshot) {
			for j := range s.Jobs() {
				if strings.Contains(j.Waiting.GetMessage(), "room is held on node n") {
					told++
				}
			}
		})
		if held := runs[0].Stats().Holds + runs[1].Stats().Holds; told == 0 && held > 0 {
			t.Errorf("room was held %d times, and nobody was told", held)
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}
