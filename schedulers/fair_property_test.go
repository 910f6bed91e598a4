package schedulers_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Evictions come to rest: whatever the weights, the sizes and the order in which jobs are tried,
// and with neither a least run nor a cap on evictions, there comes a round after which nothing
// is evicted any more; nobody within its due has lost anything to its equals, and nobody below its
// due waits for what others have borrowed and could give back.
func TestReclaimsComeToRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := celltest.New(t, memstore.New())
		for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
			name := cellstate.NodeName(fmt.Sprintf("n%d", i))
			cell.Put(cellstate.Record{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: string(name), Server: "s"}})
			cell.Node(celltest.Node{Name: string(name), CPU: 500 * rapid.Int64Range(2, 12).Draw(t, "cores"), Memory: rapid.Int64Range(2, 12).Draw(t, "memory") << 29})
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
				for _, job := range jobs {
					if missed := missed(cell.Snapshot(), job); missed != "" {
						t.Fatal(missed)
					}
				}
				return
			}
		}
		t.Fatalf("after %d rounds something is evicted still", rounds)
	})
}

// try lets the policy of a job place what it can of it now, and ends what gives way.
func try(t *rapid.T, cell *celltest.Cell, s *cellstate.Snapshot, policies map[string]schedulers.Scheduler, job cellstate.JobName) (evicted bool) {
	row := s.Job(job)
	now := time.Now().Add(time.Hour) // how long a retry waits is no matter here
	needs, _ := reconcile.Defaults().Needs(s, row, now)
	if len(needs) == 0 {
		return false
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
	if len(p.Txns) == 0 {
		return false
	}
	cell.Commit(s, p.Txns...)
	s = cell.Snapshot()
	for n := range s.Nodes() {
		for _, p := range n.Placements() {
			switch t := s.Job(p.Slot.JobName()).Task(p.Slot); {
			case p.GetEvictedBy() != "":
				cell.End(p.Slot, task.Preempted)
			case t.Status == nil:
				cell.Status(p.Slot, task.Running)
			}
		}
	}
	return evicted
}

// missed is room that a job without it could have, by a search of all that may give way on each
// node; "" if there is none. Gangs are left to their own tests.
func missed(s *cellstate.Snapshot, job cellstate.JobName) string {
	row := s.Job(job)
	needs, _ := reconcile.Defaults().Needs(s, row, time.Now().Add(time.Hour))
	if len(needs) == 0 || row.Record.GetSpec().GetKind() == "ml" {
		return ""
	}
	want, precedence, f := cellstate.GroupAmounts(needs[0].Group), row.Record.GetSpec().GetPrecedence(), s.Fair()
	for n := range s.Nodes() {
		free := cellstate.Capacity(n.Facts)
		var may []*cellstate.Placement
		for _, p := range n.Placements() {
			free = free.Minus(p.Amounts())
			if p.GetPrecedence() <= precedence {
				may = append(may, p)
			}
		}
		for set := range 1 << len(may) {
			left := free
			var victims, equals []*cellstate.Placement
			for i, p := range may {
				if set&(1<<i) != 0 {
					left = left.Plus(p.Amounts())
					victims = append(victims, p)
					if p.GetPrecedence() == precedence {
						equals = append(equals, p)
					}
				}
			}
			fits := true
			for d := range want {
				fits = fits && (want[d] == 0 || left[d] >= want[d])
			}
			if fits && (len(equals) == 0 || f.Reclaims(job.Namespace, want, victims, equals, nil)) {
				return fmt.Sprintf("%s waits, and could have room on %s if %d tasks gave way, %d of them equals", job, n.Name, len(victims), len(equals))
			}
		}
	}
	return ""
}

// Shares add up: what is due to all that take part is the cell, and what they hold is what nodes
// are charged with.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := celltest.New(t, memstore.New())
		cell.Node(celltest.Node{Name: "n1", CPU: 100_000, Memory: 100 << 30})
		cell.Weigh("a", rapid.Int32Range(1, 9).Draw(t, "weight of a"))
		for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			namespace := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "namespace")
			name := cell.Job(celltest.Job{Namespace: namespace, Name: fmt.Sprintf("j%d", i), Count: 2, CPU: rapid.Int64Range(1, 8000).Draw(t, "cpu"), Memory: rapid.Int64Range(1, 5<<30).Draw(t, "memory")})
			if rapid.Bool().Draw(t, "placed") {
				s := cell.Snapshot()
				cell.Commit(s, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, name, "main", 0), "n1")))
			}
			if rapid.Bool().Draw(t, "weighs") {
				cell.Weigh(namespace, rapid.Int32Range(1, 9).Draw(t, "weight"))
			}
		}
		s := cell.Snapshot()
		due, held := 0.0, cellstate.Amounts{}
		for q := range s.Fair().Queues() {
			held = held.Plus(q.Used)
			if q.Jobs > 0 || q.Used != (cellstate.Amounts{}) {
				due += s.Fair().Due(q.Namespace)
			}
		}
		used := s.Node("n1").Used()
		if math.Abs(due-1) > 1e-9 || held[0] != used.CPUMilli || held[1] != used.MemoryBytes {
			t.Fatalf("%v of the cell are due, %v are held, of %d and %d that are used", due, held, used.CPUMilli, used.MemoryBytes)
		}
	})
}
