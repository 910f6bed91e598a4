package cellstate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
)

// Field case 10: Validate, the commit's plan and the node's part of the rule, which is the
// agent's, agree on 10^5 random node states. A part of them is committed, too, and what
// that has done is read from the store; storetest commits some in each store.
func TestCase10(t *testing.T) {
	const parts, each, stored = 8, 500, 25 // every 25th batch is stored
	var looked, committed, fitted, refused atomic.Int64
	t.Run("states", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(10, uint64(part)))
				for batch := range celltest.Case10 / parts / each {
					states := make([]celltest.State, each)
					for i := range states {
						states[i] = celltest.RandomState(rng, i)
					}
					if batch%stored == 0 {
						committed.Add(case10Stored(t, states))
					} else {
						var records []cellstate.Change
						for _, st := range states {
							records = append(records, st.Changes(7)...)
						}
						s, err := cellstate.NewSnapshot(9, records, nil)
						if err != nil {
							t.Fatal(err)
						}
						case10(t, s, states, &fitted, &refused)
					}
					looked.Add(each)
				}
			})
		}
	})
	if looked.Load() != celltest.Case10 || committed.Load() < parts*each || fitted.Load() < celltest.Case10/5 || refused.Load() < celltest.Case10/5 {
		t.Errorf("%d states: %d claims fit, %d do not; %d were committed", looked.Load(), fitted.Load(), refused.Load(), committed.Load())
	}
}

// case10 looks at states that are all on one snapshot, and returns what fits of each and
// the commit's plan.
func case10(t *testing.T, s *cellstate.Snapshot, states []celltest.State, fitted, refused *atomic.Int64) (txns []*cellstate.Txn, fits [][]int, plan *cellstate.Plan) {
	t.Helper()
	for i, st := range states {
		txn := st.Txn(s)
		fit, conflicts := cellstate.Validate(s, txn)
		txns, fits = append(txns, txn), append(fits, fit)
		fitted.Add(int64(len(fit)))
		refused.Add(int64(len(conflicts)))
		if st.Closed {
			if len(fit) > 0 {
				t.Errorf("state %d is closed and takes %v", i, fit)
			}
			continue
		}
		if st.Unstarted && st.Evictions {
			continue // who has not started is known to the jobs' rows alone
		}
		got, gotConflicts := cellstate.Admit(s.Node(st.Node), txn)
		for k := range gotConflicts {
			gotConflicts[k].Revision = s.Revision()
		}
		if txn.Mode == cellstate.Atomic && len(conflicts) > 0 {
			fit = got // nothing fits; one by one something may
		}
		if !reflect.DeepEqual(got, fit) || !reflect.DeepEqual(gotConflicts, conflicts) {
			t.Fatalf("state %d: Validate says %v, %+v; Admit says %v, %+v", i, fit, conflicts, got, gotConflicts)
		}
	}
	plan = cellstate.MakePlan(s, time.Unix(0, 0), 1000, txns, func(cellstate.ClaimRef) bool { return false })
	planned := make([][]int, len(txns))
	for _, refs := range plan.Claims {
		for _, ref := range refs {
			planned[ref.Txn] = append(planned[ref.Txn], ref.Claim)
		}
	}
	for i := range txns {
		if !reflect.DeepEqual(planned[i], fits[i]) || len(plan.Conflicts[i]) == 0 && len(fits[i]) != len(txns[i].Claims) || len(plan.Deferred) > 0 {
			t.Fatalf("state %d: Validate says %v, the plan commits %v and has conflicts %+v", i, fits[i], planned[i], plan.Conflicts[i])
		}
	}
	return txns, fits, plan
}

// case10Stored looks at states that stand in a store, and commits their transactions. It
// returns how many.
func case10Stored(t *testing.T, states []celltest.State) int64 {
	t.Helper()
	store := memstore.New()
	var setup cellstate.Write
	for _, st := range states {
		setup.Records = append(setup.Records, st.Records...)
		setup.Fences = append(setup.Fences, cellstate.FenceBump{Node: st.Node})
	}
	cell := celltest.New(t, store)
	cell.Write(setup)
	s := cell.Snapshot()
	txns, fits, plan := case10(t, s, states, new(atomic.Int64), new(atomic.Int64))
	out, err := store.Commit(context.Background(), plan.Writes...)
	if err != nil {
		t.Fatal(err)
	}
	for w, at := range out.Applied {
		if at == 0 {
			t.Fatalf("a write did not apply: %v", plan.Writes[w])
		}
	}
	after := cell.Snapshot()
	for i, txn := range txns {
		var committed []int
		for k, c := range txn.Claims {
			if row := after.Job(c.Slot.JobName()).Task(c.Slot); row != nil && row.Placement != nil {
				committed = append(committed, k)
			}
		}
		if !reflect.DeepEqual(committed, fits[i]) {
			t.Fatalf("state %d: Validate says %v, the commit has done %v", i, fits[i], committed)
		}
		overbooked(t, s.Node(states[i].Node), after.Node(states[i].Node))
	}
	return int64(len(txns))
}

// overbooked asserts by plain sums that nothing grew beyond the node where no evictions
// are in the way.
func overbooked(t *testing.T, before, after *cellstate.Node) {
	t.Helper()
	sums := func(n *cellstate.Node) (cpu, memory, disk int64, gpus map[string]int32, plain bool) {
		gpus = map[string]int32{}
		for _, p := range n.Placements() {
			if p.GetEvictedBy() != "" {
				return 0, 0, 0, nil, false
			}
			cpu, memory, disk = cpu+p.GetResources().GetCpuMilli(), memory+p.GetResources().GetMemoryBytes(), disk+p.GetResources().GetDiskBytes()
			for _, g := range p.GetGpus() {
				gpus[g.GetId()] += g.GetMilli()
			}
		}
		return cpu, memory, disk, gpus, true
	}
	cpu, memory, disk, gpus, plain := sums(after)
	cpuBefore, memoryBefore, diskBefore, gpusBefore, _ := sums(before)
	if !plain {
		return
	}
	have := after.Facts.GetCapacity()
	if cpu > max(cpuBefore, have.GetCpuMilli()) || memory > max(memoryBefore, have.GetMemoryBytes()) || disk > max(diskBefore, have.GetDiskBytes()) {
		t.Errorf("node %s of %v has %d, %d, %d", after.Name, have, cpu, memory, disk)
	}
	for id, milli := range gpus {
		if milli > max(1000, gpusBefore[id]) {
			t.Errorf("node %s has %d of %s", after.Name, milli, id)
		}
	}
}
