package schedulers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Evictions come to rest: whatever the weights, the sizes and the order in which jobs are tried,
// and with neither a least run nor a cap on evictions, there comes a round after which nothing
// is evicted any more; and nobody within its due has lost anything to its equals.
func TestReclaimsComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := celltest.New(t, memstore.New())
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			cell.Node(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 500 * rapid.Int64Range(2, 12).Draw(t, "cores"), Memory: rapid.Int64Range(2, 12).Draw(t, "memory") << 29})
		}
		namespaces := []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "namespaces")]
		for _, name := range namespaces {
			cell.Weigh(name, rapid.Int32Range(1, 4).Draw(t, "weight"))
		}
		policies := map[string]schedulers.Scheduler{"batch": batch.New(), "ml": ml.New()}
		var jobs []cellstate.JobName
		for i := range rapid.IntRange(2, 8).Draw(t, "jobs") {
			kind := rapid.SampledFrom([]string{"batch", "batch", "ml"}).Draw(t, "kind")
			jobs = append(jobs, cell.Job(celltest.Job{
				Namespace: rapid.SampledFrom(namespaces).Draw(t, "namespace"), Name: fmt.Sprintf("j%d", i), Kind: kind, Gang: kind == "ml",
				Count: rapid.IntRange(1, 5).Draw(t, "count"), CPU: 250 * rapid.Int64Range(1, 12).Draw(t, "cpu"), Memory: rapid.Int64Range(1, 8).Draw(t, "tasks memory") << 28,
				Precedence: rapid.SampledFrom([]int{0, 0, 0, 100}).Draw(t, "precedence"),
			}))
		}
		const rounds = 300
		quiet := 0
		for range rounds {
			s := cell.Snapshot()
			job := rapid.SampledFrom(jobs).Draw(t, "tried")
			if quiet > 0 { // nobody is left out at the end
				job = jobs[quiet%len(jobs)]
			}
			evicted := try(t, cell, s, policies, job)
			if quiet++; evicted {
				quiet = 0
			}
			if quiet > 2*len(jobs) {
				return
			}
		}
		t.Fatalf("after %d rounds something is evicted still", rounds)
	})
}

// try lets the policy of a job place what it can of it now, and ends what gives way.
func try(t *rapid.T, cell *celltest.Cell, s *cellstate.Snapshot, policies map[string]schedulers.Scheduler, job cellstate.JobName) (evicted bool) {
	row := s.Job(job)
	now := time.Now()
	needs, _ := reconcile.Defaults().Needs(s, row, now)
	if len(needs) == 0 {
		return false
	}
	for i := range needs { // the time that a retry waits is no matter here
		needs[i].Node = ""
	}
	p, err := policies[row.Record.GetSpec().GetKind()].Schedule(context.Background(), schedulers.Input{
		Snapshot: s, Work: []schedulers.Work{{Job: row, Needs: needs}}, Now: now, Evictions: schedulers.Evictions{Most: 1000, Now: now},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := s.Fair()
	for i, txn := range p.Txns {
		txn.ID, txn.Scheduler, txn.Instance, txn.Snapshot = cellstate.TxnID(fmt.Sprintf("t%d-%d", s.Revision(), i)), row.Record.GetSpec().GetScheduler(), "i", s.Revision()
		equals := map[string]bool{}
		for _, c := range txn.Claims {
			for _, v := range c.Victims {
				slot := cellstate.SlotOf(v.GetSlot())
				evicted = true
				if int(s.Job(slot.JobName()).Task(slot).Placement.GetPrecedence()) == c.Precedence {
					equals[slot.Namespace] = true
				}
			}
		}
		if len(equals) > 0 && f.Share(f.Queue(job.Namespace).Used) >= f.Due(job.Namespace) {
			t.Fatalf("%s holds its due and evicts equals", job.Namespace)
		}
		for name := range equals {
			if f.Within(name, cellstate.Amounts{}) || name == job.Namespace {
				t.Fatalf("%s is within its due and evicted for its equal %s", name, job.Namespace)
			}
		}
	}
	if len(p.Txns) > 0 {
		cell.Commit(s, p.Txns...)
	}
	if evicted {
		s = cell.Snapshot()
		for n := range s.Nodes() {
			victims := slices.DeleteFunc(n.Placements(), func(p *cellstate.Placement) bool { return p.GetEvictedBy() == "" })
			for _, v := range victims {
				cell.End(v.Slot, task.Preempted)
			}
		}
	}
	return evicted
}
