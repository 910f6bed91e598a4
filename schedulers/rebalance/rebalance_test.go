package rebalance_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/rebalance"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// world is a cell in memory.
type world struct {
	celltest.TB
	*celltest.Cell
	store *memstore.Store
}

func newWorld(t celltest.TB) *world {
	store := memstore.New()
	return &world{t, celltest.New(t, store), store}
}

func (w *world) up(n celltest.Node) {
	w.Node(n)
	name := cellstate.NodeName(n.Name)
	w.Put(cellstate.Record{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: n.Name}})
}

func (w *world) runs(job string, index int, node string) {
	w.Status(w.Place(job, index, node).Slot, task.Running)
}

// replay makes the moves of a plan one after the other, each in full, through the store.
func (w *world) replay(plan rebalance.Plan) {
	w.Helper()
	for _, m := range plan.Moves {
		slot := m.Placement.Slot
		if at := w.Snapshot().Job(slot.JobName()).Task(slot).Placement.GetNode(); at != m.Placement.GetNode() || at == string(m.To) {
			w.Fatalf("%s is on %s; the plan moves it from %s to %s", slot, at, m.Placement.GetNode(), m.To)
		}
		w.End(slot, task.Drained)
		s := w.Snapshot()
		txn := celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, slot, m.To))
		if fit, conflicts := cellstate.Validate(s, txn); len(fit) != 1 {
			w.Fatalf("%s does not fit on %s: %+v", slot, m.To, conflicts)
		}
		w.Commit(s, txn)
		w.Status(slot, task.Running)
	}
}

func perNode(s *cellstate.Snapshot) map[string]int {
	of := map[string]int{}
	for n := range s.Nodes() {
		of[string(n.Name)] = n.Count()
	}
	return of
}

// Field case 40, the plan: three nodes with four tasks each, and a fourth node comes.
func TestCase40ThePlanSpreadsAgain(t *testing.T) {
	w := newWorld(t)
	w.Job(celltest.Job{Name: "web", Kind: "service", Count: 12, CPU: 500})
	for i := range 3 {
		w.up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000})
		for k := range 4 {
			w.runs("web", 4*i+k, fmt.Sprintf("n%d", i))
		}
	}
	even, err := rebalance.Spread(t.Context(), w.Snapshot(), celltest.Name("web"), 100)
	if err != nil || len(even.Moves) != 0 {
		t.Fatalf("an even job is to move %v, %v", even.Moves, err)
	}
	w.up(celltest.Node{Name: "n3", CPU: 4000})
	before := w.Snapshot().Revision()
	plan, err := rebalance.Spread(t.Context(), w.Snapshot(), celltest.Name("web"), 100)
	if err != nil || len(plan.Moves) != 3 {
		t.Fatalf("%d moves, %v; want 3", len(plan.Moves), err)
	}
	if plan.Before.Most != 4 || plan.Before.Fewest != 0 || plan.After.Most != 3 || plan.After.Fewest != 3 {
		t.Errorf("from %+v to %+v", plan.Before, plan.After)
	}
	if w.Snapshot().Revision() != before {
		t.Error("a plan has written something")
	}
	w.replay(plan)
	if got, want := perNode(w.Snapshot()), map[string]int{"n0": 3, "n1": 3, "n2": 3, "n3": 3}; !maps.Equal(got, want) {
		t.Errorf("afterwards the nodes have %v", got)
	}
	schedtest.Audited(t, w.store, nil)
}

// What a plan to spread leaves alone.
func TestSpreadLeavesAlone(t *testing.T) {
	for _, c := range []struct {
		name  string
		job   celltest.Job
		do    func(*world)
		moves int
		err   error
	}{
		{"what does not fit", celltest.Job{}, nil, 1, nil},
		{"a batch job", celltest.Job{Kind: "batch"}, nil, 0, rebalance.ErrNoService},
		{"a node that a constraint forbids", celltest.Job{Constraints: []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"x"}}}}, nil, 0, nil},
		{"tasks that do not run", celltest.Job{}, func(w *world) {
			for i := range 4 {
				w.Status(celltest.Slot(w.Snapshot(), celltest.Name("j"), "main", i), task.Stopping)
			}
		}, 0, nil},
		{"a node without a session", celltest.Job{}, func(w *world) {
			w.Put(cellstate.Record{Key: cellstate.AliveKey("b"), Read: w.Snapshot().Node("b").AliveRevision})
		}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.job.Name, c.job.Count, c.job.CPU = "j", 4, 500
			if c.job.Kind == "" {
				c.job.Kind = "service"
			}
			w.Job(c.job)
			w.up(celltest.Node{Name: "a", CPU: 4000, Attributes: map[string]string{"zone": "x"}})
			for i := range 4 {
				w.runs("j", i, "a")
			}
			w.up(celltest.Node{Name: "b", CPU: 600, Attributes: map[string]string{"zone": "y"}})
			if c.do != nil {
				c.do(w)
			}
			plan, err := rebalance.Spread(t.Context(), w.Snapshot(), celltest.Name("j"), 100)
			if !errors.Is(err, c.err) || len(plan.Moves) != c.moves {
				t.Errorf("%d moves, error %v; want %d, %v", len(plan.Moves), err, c.moves, c.err)
			}
			w.replay(plan)
		})
	}
}

// A node with little on it is emptied into those in use; one with a task of a batch job that has
// no budget is not.
func TestDefragEmptiesNodes(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"a", "b", "c", "d", "e"} {
		w.up(celltest.Node{Name: n, CPU: 4000})
	}
	w.Job(celltest.Job{Name: "web", Kind: "service", Count: 2, CPU: 1000})
	w.Job(celltest.Job{Name: "sum", Count: 2, CPU: 1000})
	w.Job(celltest.Job{Name: "kind", Count: 1, CPU: 1000, Disruption: &ohmv1.Disruption{MaxUnavailable: 1}})
	w.runs("web", 0, "a")
	w.runs("web", 1, "b")
	w.runs("sum", 0, "b")
	w.runs("sum", 1, "c")
	w.runs("kind", 0, "d")
	plan, err := rebalance.Defrag(t.Context(), w.Snapshot(), 100)
	if err != nil || plan.Before.Empty != 1 || plan.After.Empty != 3 || len(plan.Moves) != 2 {
		t.Fatalf("%d moves, %+v to %+v, %v; want a and d emptied", len(plan.Moves), plan.Before, plan.After, err)
	}
	w.replay(plan)
	of := perNode(w.Snapshot())
	if of["a"] != 0 || of["d"] != 0 || of["e"] != 0 {
		t.Errorf("afterwards the nodes have %v", of)
	}
	if plan, err = rebalance.Defrag(t.Context(), w.Snapshot(), 100); err != nil || len(plan.Moves) > 0 {
		t.Errorf("and then %v, %v", plan.Moves, err)
	}
	schedtest.Audited(t, w.store, nil)
}

// A task without GPUs that takes nearly all CPU of a node with GPUs is moved to where it strands none.
func TestDefragFreesStrandedGPUs(t *testing.T) {
	w := newWorld(t)
	w.up(celltest.Node{Name: "gpu1", CPU: 8000, GPUs: 4, Model: "T4"})
	w.up(celltest.Node{Name: "gpu2", CPU: 8000, GPUs: 4, Model: "T4"})
	w.up(celltest.Node{Name: "cpu", CPU: 16000})
	w.Job(celltest.Job{Name: "infer", Kind: "service", Count: 4, CPU: 2000, GPUs: 1})
	w.Job(celltest.Job{Name: "web", Kind: "service", Count: 3, CPU: 7000})
	w.Job(celltest.Job{Name: "stays", CPU: 100})
	w.runs("infer", 0, "gpu2")
	w.runs("infer", 1, "gpu2")
	w.runs("web", 0, "gpu1")
	w.runs("stays", 0, "gpu1")
	w.runs("web", 1, "cpu")
	plan, err := rebalance.Defrag(t.Context(), w.Snapshot(), 100)
	if err != nil || len(plan.Moves) != 1 || plan.Before.StrandedGPU < 3000 || plan.After.StrandedGPU > 1000 {
		t.Fatalf("%d moves: from %+v to %+v, %v", len(plan.Moves), plan.Before, plan.After, err)
	}
	w.replay(plan)
	schedtest.Audited(t, w.store, nil)
}

// Whatever the cell, a plan makes nothing worse, moves no task twice, each of its moves is
// valid after those before it, and it is the same each time.
func TestPlansAreSound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		nodes := rapid.IntRange(2, 6).Draw(rt, "nodes")
		for i := range nodes {
			n := celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 1000 * rapid.Int64Range(1, 8).Draw(rt, "cpu"), Memory: 8 << 30,
				Attributes: map[string]string{"zone": rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "zone")}}
			if n.GPUs = rapid.IntRange(0, 3).Draw(rt, "gpus"); n.GPUs > 0 {
				n.Model = "T4"
			}
			w.up(n)
		}
		for i := range rapid.IntRange(1, 4).Draw(rt, "jobs") {
			j := celltest.Jobs(fmt.Sprintf("j%d", i)).Draw(rt, "job")
			w.Job(j)
			for k := range j.Count {
				s := w.Snapshot()
				node := cellstate.NodeName(fmt.Sprintf("n%d", rapid.IntRange(0, nodes-1).Draw(rt, "node")))
				claim := celltest.Claim(s, celltest.Slot(s, celltest.Name(j.Name), "main", k), node)
				txn := celltest.Txn(s, cellstate.Incremental, claim)
				if fit, _ := cellstate.Validate(s, txn); len(fit) == 1 {
					w.Commit(s, txn)
					w.Status(claim.Slot, task.Running)
				}
			}
		}
		s := w.Snapshot()
		plan, err := rebalance.Defrag(t.Context(), s, 100)
		if again, _ := rebalance.Defrag(t.Context(), s, 100); err != nil || fmt.Sprint(shown(again)) != fmt.Sprint(shown(plan)) {
			rt.Fatalf("%v, then %v, %v", shown(plan), shown(again), err)
		}
		if plan.After.StrandedGPU > plan.Before.StrandedGPU || plan.After.Empty < plan.Before.Empty {
			rt.Fatalf("from %+v to %+v", plan.Before, plan.After)
		}
		twice := map[cellstate.Slot]bool{}
		for _, m := range plan.Moves {
			if twice[m.Placement.Slot] {
				rt.Fatalf("%s moves twice", m.Placement.Slot)
			}
			twice[m.Placement.Slot] = true
		}
		w.replay(plan)
		for j := range w.Snapshot().Jobs() {
			plan, err := rebalance.Spread(t.Context(), w.Snapshot(), j.Name, 100)
			if j.Record.GetSpec().GetKind() != "service" {
				continue
			}
			if err != nil || plan.After.Most-plan.After.Fewest > plan.Before.Most-plan.Before.Fewest {
				rt.Fatalf("%s: from %+v to %+v, %v", j.Name, plan.Before, plan.After, err)
			}
			w.replay(plan)
		}
	})
}

func shown(plan rebalance.Plan) (of []string) {
	for _, m := range plan.Moves {
		of = append(of, fmt.Sprintf("%s from %s to %s", m.Placement.Slot, m.Placement.GetNode(), m.To))
	}
	return of
}
