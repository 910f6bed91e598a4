package schedulers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// busy is a cell of so many nodes of 4 GPUs and 8 cores, all of which stand full of tasks of a
// scheduler that is not there; they are over in a minute, unless they have no limit.
func busy(cell *schedtest.Cell, nodes int, limit time.Duration) {
	cell.Job(celltest.Job{Name: "first", Scheduler: "nobody", Count: 4 * nodes, CPU: 1000, GPUs: 1, MaxRuntime: limit})
	for n := range nodes {
		name := string(rune('a' + n))
		cell.Up(celltest.Node{Name: name, CPU: 8000, GPUs: 4, Model: "T4"})
		s := cell.Snapshot()
		txn := celltest.Txn(s, cellstate.Incremental)
		txn.Scheduler = "nobody"
		for i := range 4 {
			c := celltest.Claim(s, slotOf("first", 4*n+i), cellstate.NodeName(name))
			c.GPUs = []*ohmv1.DeviceShare{{Id: s.Node(c.Node).Facts.GetGpus()[i].GetId(), Milli: 1000}}
			if limit > 0 {
				c.Ends = time.Now().Add(limit + time.Duration(n)*time.Minute)
			}
			txn.Claims = append(txn.Claims, c)
		}
		cell.Commit(s, txn)
	}
}

func reservations(s *cellstate.Snapshot) (all []*cellstate.Hold) {
	for n := range s.Nodes() {
		for _, h := range n.Holds {
			if h.GetReserves() {
				all = append(all, h)
			}
		}
	}
	return all
}

func reserved(n int) func(*cellstate.Snapshot) bool {
	return func(s *cellstate.Snapshot) bool { return len(reservations(s)) == n }
}

// Room is reserved where it will be there the earliest; who is over before passes, who is not goes
// elsewhere or waits; the last word says what is awaited; and a node that goes is given up.
func TestReservation(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		busy(cell, 3, time.Minute)
		cell.Run("batch", "a", batch.New())
		cell.Run("ml", "a", ml.New())
		cell.Submit(celltest.Job{Name: "large", Kind: "ml", Gang: true, CPU: 1000, GPUs: 4})
		s := cell.Until("room is reserved", reserved(1))
		h := reservations(s)[0]
		first := s.Job(celltest.Name("first")).Tasks[0].Placement.GetLatestEnd()
		if h.GetNode() != "a" || !h.GetStarts().AsTime().Equal(first.AsTime()) || h.GetEnds() != 4 || h.GetScheduler() != "ml" {
			t.Errorf("reservation %v", h)
		}
		cell.Until("its word says so", func(s *cellstate.Snapshot) bool {
			return strings.Contains(schedtest.Word(s, "large").GetMessage(), "room is reserved on node a until 4 tasks there have ended, the last of them, first/main/")
		})
		cell.Release(slotOf("first", 0), task.Succeeded) // on a
		cell.Release(slotOf("first", 4), task.Succeeded) // on b
		cell.Submit(celltest.Job{Name: "short", CPU: 1000, GPUs: 1, Count: 2, MaxRuntime: 20 * time.Second})
		cell.Submit(celltest.Job{Name: "long", CPU: 1000, GPUs: 1, Count: 2})
		s = cell.Until("the short ones and none of the long ones have room", func(s *cellstate.Snapshot) bool {
			return placed("short", 2)(s) && waits("long")(s)
		})
		on := map[string]int{}
		for _, t := range s.Job(celltest.Name("short")).Tasks {
			on[t.Placement.GetNode()]++
		}
		if on["a"] != 1 || on["b"] != 1 {
			t.Errorf("the short ones are on %v", on)
		}
		cell.Release(slotOf("first", 5), task.Succeeded)
		cell.Until("a long one goes elsewhere", placed("long", 1))
		cell.Intent(&ohmv1.Intent{Node: "a", Ineligible: true})
		cell.Until("the reservation moves", func(s *cellstate.Snapshot) bool { return reserved(1)(s) && reservations(s)[0].GetNode() != "a" })
		cell.Intent(&ohmv1.Intent{Node: "a"})
		cell.Mark(celltest.Name("large"), func(j *ohmv1.Job) { j.Stopped = true })
		cell.Within(time.Second, "nothing is reserved for a job that was stopped", reserved(0))
	})
}

// A reservation is the head's: it goes to a more urgent job that comes.
func TestReservationIsTheHeads(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		busy(cell, 1, 0)
		cell.Run("batch", "a", batch.New(), neverEvicts)
		cell.Submit(celltest.Job{Name: "large", GPUs: 4})
		s := cell.Until("room is reserved", reserved(1))
		if h := reservations(s)[0]; h.GetStarts() != nil {
			t.Errorf("nobody knows when it starts, and it says %v", h.GetStarts().AsTime())
		}
		cell.Submit(celltest.Job{Name: "urgent", GPUs: 4, Precedence: celltest.BatchLevel})
		cell.Until("it is the more urgent one's", func(s *cellstate.Snapshot) bool {
			all := reservations(s)
			return len(all) == 1 && all[0].GetSlot().GetJob() == "urgent"
		})
		for i := range 4 {
			cell.Release(slotOf("first", i), task.Succeeded)
		}
		cell.Until("it is placed", placed("urgent", 1))
	})
}

// Field case 33: a job that can never run holds up nobody, has nothing reserved or evicted
// for it, and says why it never runs.
func TestCase33ImpossibleJobs(t *testing.T) {
	unlike := []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"moon"}}}
	for name, c := range map[string]struct {
		job celltest.Job
		why string
	}{
		"too large":        {celltest.Job{GPUs: 16}, "it can never run on the nodes of this cell: it asks for 16 GPUs; no node that it may run on has more than 4"},
		"no such model":    {celltest.Job{GPUs: 1, Models: []string{"V9"}}, "it can never run on the nodes of this cell: it asks for 1 GPUs of model [V9]; no node that it may run on has more than 0"},
		"no such node":     {celltest.Job{CPU: 1, Constraints: unlike}, "it can never run on the nodes of this cell: none of the 2 nodes of the cell is such as it asks for (zone)"},
		"too much cpu":     {celltest.Job{CPU: 9000}, "it can never run on the nodes of this cell: it asks for 9 of cpu; the largest node that it may run on has 8"},
		"a gang too large": {celltest.Job{Kind: "ml", Gang: true, Count: 3, GPUs: 4}, "if nothing else stood on the nodes that are there now, 2 of 3 tasks of the gang would have room"},
		"beyond quota":     {celltest.Job{Namespace: "poor", CPU: 4000}, "can never run under the quota of namespace poor"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				busy(cell, 2, time.Hour)
				scope := celltest.Namespace("poor")
				cell.Quota(scope, celltest.CPU(3000))
				cell.Share(celltest.Account(scope, "a"), celltest.CPU(3000))
				cell.Run("batch", "a", batch.New(), hasty)
				cell.Run("ml", "a", ml.New(), hasty)
				c.job.Name, c.job.Precedence = "impossible", celltest.BatchLevel
				id := cell.Submit(c.job)
				word := func(s *cellstate.Snapshot) string { return s.Job(id).Waiting.GetMessage() }
				behind := celltest.Job{Name: "behind", Namespace: c.job.Namespace, Kind: c.job.Kind, Gang: c.job.Gang, CPU: 3000}
				follows := cell.Submit(behind)
				cell.Within(time.Second, "the one behind it runs", func(s *cellstate.Snapshot) bool {
					j := s.Job(follows)
					return len(j.Tasks) == 1 && j.Tasks[0].Placement != nil
				})
				cell.Within(5*time.Second, "it says why it never runs", func(s *cellstate.Snapshot) bool { return strings.Contains(word(s), c.why) })
				<-time.After(time.Minute)
				s := cell.Snapshot()
				if !strings.Contains(word(s), c.why) {
					t.Errorf("it says %q, want %q", word(s), c.why)
				}
				for n := range s.Nodes() {
					if len(n.Holds) > 0 || len(evicted(s, n.Name)) > 0 {
						t.Errorf("node %s: holds %v, evicted %v", n.Name, n.Holds, evicted(s, n.Name))
					}
				}
			})
		})
	}
}

// killed is a store of which a process makes no use any more once it was killed.
type killed struct {
	schedulers.Store
	dead chan struct{}
}

func (k killed) KeepAlive(ctx context.Context, l cellstate.Lease) error {
	inner, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-k.dead:
			end()
		case <-inner.Done():
		}
	}()
	err := k.Store.KeepAlive(inner, l)
	<-ctx.Done()
	return err
}

func (k killed) Revoke(ctx context.Context, l cellstate.Lease) error {
	select {
	case <-k.dead:
		return nil
	default:
		return k.Store.Revoke(ctx, l)
	}
}

// Field cases 32 and 93: what is reserved by a scheduler that was killed goes with its lease, and
// what a policy that stands still has reserved does before long; others have the room then.
func TestCase93ReservationsOfTheDead(t *testing.T) {
	for _, c := range []struct {
		name  string
		stuck bool
		limit time.Duration
	}{{"killed", false, 11 * time.Second}, {"stuck", true, 2*time.Minute + 11*time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				busy(cell, 1, 0)
				dead := make(chan struct{})
				policy := schedulers.Scheduler(ml.New())
				if c.stuck {
					policy = stuck{ml.New(), 4}
				}
				cell.Run("ml", "a", policy, func(config *schedulers.Config) { config.Store = killed{config.Store, dead} })
				cell.Run("service", "a", service.New())
				cell.Submit(celltest.Job{Name: "large", Kind: "ml", Gang: true, GPUs: 4})
				cell.Until("room is reserved", reserved(1))
				cell.Submit(celltest.Job{Name: "web", Kind: "service", CPU: 1000, GPUs: 1})
				cell.Submit(celltest.Job{Name: "cpu", Kind: "service", CPU: 1000})
				cell.Release(slotOf("first", 0), task.Succeeded)
				cell.Within(time.Second, "who wants none of it has his room", placed("cpu", 1))
				if !c.stuck {
					close(dead)
				}
				if s := cell.Snapshot(); !reserved(1)(s) || schedtest.Placed(s, "web") > 0 {
					t.Error("the reservation did not bind")
				}
				cell.Within(c.limit, "the room is another's", placed("web", 1))
			})
		})
	}
}
