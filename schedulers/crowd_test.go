package schedulers_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// tried counts the claims that schedulers sent: those that committed and those refused.
func tried(runs []*schedtest.Scheduler) (committed, refused int64) {
	for _, r := range runs {
		s := r.Stats()
		committed += s.Committed
		for _, n := range s.Refused {
			refused += n
		}
	}
	return committed, refused
}

// homeless is a policy that knows no home share.
type homeless struct{ policy schedulers.Scheduler }

func (p homeless) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	in.Home = schedulers.Home{}
	return p.policy.Schedule(ctx, in)
}

// Field case 11: four schedulers with 25 one-GPU tasks each meet on the node that all of
// them like best, while 24 others are free. They part: all are placed, with no more than
// two tries each on average, and no task is tried again and again within moments.
func TestCase11ManyMeetOnOneNode(t *testing.T) {
	for name, policy := range map[string]func() schedulers.Scheduler{
		"home shares":         func() schedulers.Scheduler { return batch.New() },
		"without home shares": func() schedulers.Scheduler { return homeless{batch.New()} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				for i := range 25 {
					cell.Up(celltest.Node{Name: fmt.Sprintf("n%02d", i), CPU: 64_000, GPUs: 8})
				}
				cell.Job(celltest.Job{Name: "hot", Scheduler: "nobody", GPUs: 4})
				cell.Place("hot", 0, "n00") // who packs likes it best, and it is the first
				var runs []*schedtest.Scheduler
				for i := range 4 {
					runs = append(runs, cell.Run(fmt.Sprint("s", i), "a", schedtest.Takes{Policy: policy(), Time: 2 * time.Millisecond}))
				}
				cell.Until("all are there", func(s *cellstate.Snapshot) bool {
					return len(slices.Collect(s.Schedulers())) == 4
				})
				for i := range 100 {
					cell.Submit(celltest.Job{Name: fmt.Sprintf("j%03d", i), Scheduler: fmt.Sprint("s", i%4), CPU: 100, GPUs: 1})
				}
				s := cell.Until("all 100 are placed", func(s *cellstate.Snapshot) bool {
					n := 0
					for row := range s.Nodes() {
						n += len(row.Placements())
					}
					return n == 101
				})
				tries := map[string][]time.Time{}
				for _, c := range conflicts(s, "") {
					task := cellstate.SlotOf(c.GetSlot()).String()
					tries[task] = append(tries[task], c.GetTime().AsTime())
				}
				for _, r := range runs {
					r.Stop()
				}
				committed, refused := tried(runs)
				t.Logf("%d commits, %d refused", committed, refused)
				if committed != 100 || refused > 100 {
					t.Errorf("%d commits, %d refused: more than two tries for a task on average", committed, refused)
				}
				const cap = 10 // of tries of one task within a second
				for task, at := range tries {
					slices.SortFunc(at, time.Time.Compare)
					for i := cap; i < len(at); i++ {
						if at[i].Sub(at[i-cap]) < time.Second {
							t.Errorf("%s was tried %d times within %v", task, cap+1, at[i].Sub(at[i-cap]))
							break
						}
					}
				}
				schedtest.Audited(t, cell.Store, nil)
			})
		})
	}
}

// Field case 14: 1,000 nodes, nine tenths full, and 10,000 tasks for them. More schedulers
// place them no slower: a decision takes its time by the bubble's clock, so what is
// measured is what conflicts cost, and not the machine. With the race detector, which looks
// for other faults, it is a tenth of it, and too little to measure.
func TestCase14MoreSchedulersPlaceNoSlower(t *testing.T) {
	nodes, jobs, tasks := 1000, 100, 100
	if raced {
		nodes, jobs = 100, 10
	}
	goodput := map[int]float64{}
	for _, n := range []int{1, 2, 4, 8} {
		bubble(t, func(t *testing.T, cell *schedtest.Cell) {
			var writes []cellstate.Write
			for i := range nodes {
				facts := celltest.Node{Name: fmt.Sprintf("n%03d", i), CPU: 110_000}.Proto()
				name := cellstate.NodeName(facts.GetName())
				old := celltest.Job{Name: fmt.Sprintf("old-%03d", i), CPU: 99_000}.Proto()
				writes = append(writes, cellstate.NodeWrite(name, nil, cellstate.Record{Key: cellstate.NodeKey(name), Value: facts}),
					cellstate.Write{Records: []cellstate.Record{{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: string(name)}}}},
					cellstate.Write{Records: []cellstate.Record{{Key: cellstate.JobKey(cellstate.JobNameOf(old)), Value: &ohmv1.Job{Spec: old, Version: 1}}}})
			}
			put(t, cell, writes)
			s := cell.Snapshot()
			var standing []*cellstate.Txn
			for i := range nodes {
				slot := celltest.Slot(s, celltest.Name(fmt.Sprintf("old-%03d", i)), "main", 0)
				standing = append(standing, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, slot, cellstate.NodeName(fmt.Sprintf("n%03d", i)))))
			}
			cell.Commit(s, standing...)
			var runs []*schedtest.Scheduler
			for i := range n {
				runs = append(runs, cell.Run("batch", fmt.Sprint("i", i), schedtest.Takes{Policy: batch.New(), Time: 10 * time.Millisecond}))
			}
			cell.Until("all are registered", func(s *cellstate.Snapshot) bool {
				return s.Scheduler("batch") != nil && len(s.Scheduler("batch").Instances) == n
			})
			writes = nil
			for i := range jobs {
				spec := celltest.Job{Name: fmt.Sprintf("j%03d", i), Count: tasks, CPU: 1000}.Proto()
				writes = append(writes, cellstate.Write{Records: []cellstate.Record{
					{Key: cellstate.JobKey(cellstate.JobNameOf(spec)), Value: &ohmv1.Job{Spec: spec, Version: 1, SubmitTime: timestamppb.Now()}},
				}})
			}
			put(t, cell, writes)
			began := time.Now()
			cell.Until("all tasks are placed", func(s *cellstate.Snapshot) bool {
				placed := 0
				for row := range s.Nodes() {
					placed += len(row.Placements())
				}
				return placed == nodes+jobs*tasks
			})
			took := time.Since(began)
			for _, r := range runs {
				r.Stop()
			}
			committed, refused := tried(runs)
			goodput[n] = float64(jobs*tasks) / took.Seconds()
			t.Logf("%d schedulers: %.0f placements/s of the bubble's time, %.4f conflicts per commit, %d wasted attempts",
				n, goodput[n], float64(refused)/float64(committed), refused)
		})
	}
	if !raced && goodput[4] < goodput[1] {
		t.Errorf("goodput by number of schedulers: %v", slices.Sorted(maps.Values(goodput)))
	}
}

// put commits many writes, each of which must apply.
func put(t *testing.T, cell *schedtest.Cell, writes []cellstate.Write) {
	t.Helper()
	out, err := cell.Store.Commit(t.Context(), writes...)
	if err != nil || slices.Contains(out.Applied, 0) {
		t.Fatalf("outcome %v, error %v", out, err)
	}
}

// Field case 93, the second half: a scheduler whose policy proposes nothing but what
// cannot commit is kept from doing so all the time, and others place as if it were not there.
func TestCase93ATightLoopIsSlowedDown(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 1000}, celltest.Node{Name: "n2", CPU: 64_000})
		cell.Job(celltest.Job{Name: "full", Scheduler: "nobody", CPU: 1000})
		cell.Place("full", 0, "n1")
		mad := cell.Run("mad", "a", schedtest.Stubborn{Node: "n1"}, func(c *schedulers.Config) { c.Log = zap.NewNop() })
		cell.Run("service", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "never", Scheduler: "mad", Count: 50, CPU: 500})
		cell.Until("it has begun", func(*cellstate.Snapshot) bool { return len(mad.Stats().Refused) > 0 })
		before := mad.Stats().Refused["Resources"]
		for i := range 60 { // with the end of each of them there is new room, and every slot is tried again
			cell.Submit(celltest.Job{Name: fmt.Sprint("j", i), Kind: "service", CPU: 100})
			began := time.Now()
			cell.Until("it is placed", placed(fmt.Sprint("j", i), 1))
			if waited := time.Since(began); waited > 20*time.Millisecond {
				t.Errorf("a task waited %v beside the mad scheduler", waited)
			}
			<-time.After(time.Second)
			cell.Release(slot(cell.Snapshot(), fmt.Sprint("j", i), 0), task.Succeeded)
		}
		if more := mad.Stats().Refused["Resources"] - before; more > 50*60 {
			t.Errorf("its 50 tasks lost %d times in a minute: more than once a second each", more)
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}
