package schedulers_test

import (
	"context"
	"fmt"
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

// ask puts a question as a server does, and returns the answer.
func ask(cell *schedtest.Cell, q *ohmv1.Ask) *ohmv1.Ask {
	q.Id = fmt.Sprintf("q%d", cell.Snapshot().Revision())
	cell.Put(cellstate.Record{Key: cellstate.AskKey(q.Scheduler, q.Id), Value: q})
	var answer *ohmv1.Ask
	cell.Until("an answer", func(s *cellstate.Snapshot) bool {
		for a := range s.Asks(q.Scheduler) {
			if a.Id == q.Id && a.AnsweredBy != "" {
				answer = a
			}
		}
		return answer != nil
	})
	return answer
}

// decided is what the log of a scheduler's instance a says of a transaction once it has landed.
func decided(cell *schedtest.Cell, scheduler, txn string) *ohmv1.Decision {
	for {
		d := ask(cell, &ohmv1.Ask{Scheduler: scheduler, Instance: "a", Transaction: txn}).GetDecision()
		if d.GetOutcome() != "UnderWay" {
			return d
		}
	}
}

// aboutNode is what a scheduler says of one node and the only group of a job.
func aboutNode(t *testing.T, cell *schedtest.Cell, scheduler, job, node string) *ohmv1.NodeGroup {
	t.Helper()
	a := ask(cell, &ohmv1.Ask{Scheduler: scheduler, Namespace: "default", Job: job, Node: node})
	if len(a.GetAboutNode().GetGroups()) != 1 {
		t.Fatalf("the answer is %v; want one of one group", a)
	}
	return a.AboutNode.Groups[0]
}

// refusals writes down what keeps a group off a node: "reason/dimension wanted/free/has takers".
func refusals(g *ohmv1.NodeGroup) string {
	var all []string
	for _, r := range g.GetRefusals() {
		line := r.GetReason() + "/" + r.GetDimension()
		if r.GetWanted() != "" {
			line += fmt.Sprintf(" %s/%s/%s", r.GetWanted(), r.GetFree(), r.GetHas())
		}
		for _, w := range r.GetTakers() {
			line += fmt.Sprintf(" %s:%s", w.GetTask(), w.GetTakes())
		}
		all = append(all, line)
	}
	return strings.Join(all, "; ")
}

// One node is asked: the answer holds all that keeps the task off, not the first reason alone,
// with what is wanted, what is free and who has the rest.
func TestCase74OneNode(t *testing.T) {
	for _, c := range []struct {
		name string
		node celltest.Node
		on   *celltest.Job // placed there before
		job  celltest.Job
		want string // refusals; empty: it fits
		gpus string // part of the detail of the last refusal
	}{
		{"another one fits", celltest.Node{CPU: 4000}, nil, celltest.Job{CPU: 2000}, "", ""},
		{"short of two, one of them taken", celltest.Node{CPU: 4000, Memory: 8 << 30}, &celltest.Job{CPU: 3000, Memory: 1 << 30, Count: 1},
			celltest.Job{CPU: 2000, Memory: 16 << 30}, "Resources/cpu 2/1/4 other/main/0:3; Resources/memory 16Gi/7Gi/8Gi other/main/0:1Gi", ""},
		{"a constraint, a full disk and no room", celltest.Node{CPU: 1000, DiskFull: "1% free", Attributes: map[string]string{"zone": "west"}}, nil,
			celltest.Job{CPU: 2000, Constraints: []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"east"}}, {Key: "ssd", Op: ohmv1.Operator_OPERATOR_EXISTS}}},
			"DiskFull/; Constraint/zone zone in [east]//west; Constraint/ssd ssd exists//none; Resources/cpu 2/1/1", ""},
		{"devices of two models", celltest.Node{CPU: 4000, GPUs: 2, Model: "A"}, nil,
			celltest.Job{CPU: 1, GPUs: 2, Models: []string{"A"}}, "Resources/gpus 2/1/2", "gpu-0 (A) is free, gpu-1 (B) is one of another model"},
		{"a device that is taken", celltest.Node{CPU: 4000, GPUs: 2, Model: "A"}, &celltest.Job{CPU: 1, GPUs: 1},
			celltest.Job{CPU: 1, GPUs: 2}, "Resources/gpus 2/1/2 other/main/0:gpu-0", "gpu-0 (A) is taken, gpu-1 (A) is free"},
		{"no devices", celltest.Node{CPU: 4000}, nil, celltest.Job{CPU: 1, GPUs: 1}, "Resources/gpus 1/0/0", "it has no GPU"},
	} {
		for kind, policy := range map[string]schedulers.Scheduler{"batch": batch.New(), "service": service.New(), "ml": ml.New()} {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				bubble(t, func(t *testing.T, cell *schedtest.Cell) {
					c.node.Name = "n1"
					cell.Up(c.node)
					if c.name == "devices of two models" {
						n := c.node.Proto()
						n.Gpus[1].Model = "B"
						s := cell.Snapshot()
						cell.Write(cellstate.Write{
							Records: []cellstate.Record{{Key: cellstate.NodeKey("n1"), Value: n, Read: s.RecordRevision(cellstate.NodeKey("n1"))}},
							Fences:  []cellstate.FenceBump{{Node: "n1", Compared: s.Node("n1").Fence}},
						})
					}
					cell.Run(kind, "a", policy)
					if c.on != nil {
						on := *c.on
						on.Name, on.Kind = "other", kind
						cell.Submit(on)
						cell.Until("the other is placed", placed("other", 1))
					}
					c.job.Name, c.job.Kind = "j", kind
					cell.Submit(c.job)
					if c.want == "" {
						cell.Until("it is placed", placed("j", 1))
					} else {
						cell.Until("it waits", waits("j"))
					}
					g := aboutNode(t, cell, kind, "j", "n1")
					if got := refusals(g); got != c.want || g.GetFits() != (c.want == "") {
						t.Errorf("fits: %v, refused: %s; want %s", g.GetFits(), got, c.want)
					}
					if c.gpus != "" && g.Refusals[len(g.Refusals)-1].GetDetail() != c.gpus {
						t.Errorf("of the devices it says %q; want %q", g.Refusals[len(g.Refusals)-1].GetDetail(), c.gpus)
					}
				})
			})
		}
	}
}

// A scheduler whose policy does not speak of single nodes answers by the rule of the commit.
func TestOneNodeByTheRule(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000}, celltest.Node{Name: "n2", CPU: 1000, Attributes: map[string]string{"zone": "west"}})
		cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "other", CPU: 3000})
		cell.Until("the other is placed", placed("other", 1))
		cell.Submit(celltest.Job{Name: "j", CPU: 2000})
		cell.Until("it waits", waits("j"))
		a := ask(cell, &ohmv1.Ask{Scheduler: "batch", Namespace: "default", Job: "j", Node: "n1"})
		g := a.GetAboutNode().GetGroups()[0]
		if got := refusals(g); got != "Resources/cpu 2/1/ other/main/0:3" || g.GetWaiting() != 1 || !strings.Contains(a.AboutNode.GetBasis(), "rule of the commit") {
			t.Errorf("by %s: %s, %d wait", a.AboutNode.GetBasis(), got, g.GetWaiting())
		}
		if a := ask(cell, &ohmv1.Ask{Scheduler: "batch", Namespace: "default", Job: "j", Node: "n9"}); a.GetAboutNode() != nil || !strings.Contains(a.GetProblem(), "no node n9") {
			t.Errorf("of a node that is not there it says %v", a)
		}
	})
}

// What would give way on one node is said with the reasons, as is why nothing does.
func TestCase26OneNode(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		cell.Run("batch", "a", batch.New())
		cell.Submit(celltest.Job{Name: "low", CPU: 4000, Precedence: 50})
		cell.Until("low is placed", placed("low", 1))
		cell.Submit(celltest.Job{Name: "high", CPU: 4000, Precedence: 200, GPUs: 1})
		cell.Until("high waits", waits("high"))
		g := aboutNode(t, cell, "batch", "high", "n1")
		if got, want := refusals(g), "Resources/cpu 4/0/4 low/main/0:4; Resources/gpus 1/0/0"; got != want {
			t.Errorf("refused: %s; want %s", got, want)
		}
		if !strings.Contains(g.GetGivesWay(), "below 200 that may give way it would not do") {
			t.Errorf("of what gives way it says %q", g.GetGivesWay())
		}
		cell.Submit(celltest.Job{Name: "young", CPU: 4000, Precedence: 200})
		cell.Until("young waits", waits("young"))
		if g := aboutNode(t, cell, "batch", "young", "n1"); !strings.Contains(g.GetGivesWay(), "has not run for 10s") {
			t.Errorf("of what gives way it says %q", g.GetGivesWay())
		}
	})
}

// A decision is in the log with what it was made among and what came of it; what the log has
// dropped it does not know.
func TestDecisionLog(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000}, celltest.Node{Name: "n2", CPU: 8000}, celltest.Node{Name: "n3", CPU: 1000})
		cell.Run("batch", "a", batch.New(), hasty)
		cell.Submit(celltest.Job{Name: "j", CPU: 3000, Count: 2})
		s := cell.Until("j is placed", placed("j", 2))
		p := s.Job(celltest.Name("j")).Tasks[0].Placement
		d := decided(cell, "batch", p.GetTxn())
		if d == nil {
			t.Fatal("the log has no such decision")
		}
		if d.GetOutcome() != "Committed" || d.GetCommitted() != 2 || d.GetRevision() != int64(p.Revision) || d.GetSnapshotRevision() != p.GetSnapshotRevision() || d.GetClaims() != 2 || d.GetSource() != "log" {
			t.Errorf("it is %v; the placement says revision %d on snapshot %d", d, p.Revision, p.GetSnapshotRevision())
		}
		if len(d.GetGroups()) != 1 || d.Groups[0].GetNodes() != 3 || d.Groups[0].GetConsidered() != 2 || len(d.Groups[0].GetBest()) != 2 || d.Groups[0].Best[0].GetScore() < d.Groups[0].Best[1].GetScore() {
			t.Errorf("made among %v; want the two of three nodes that have room, the best first", d.GetGroups())
		}
		for i, c := range d.GetChosen() {
			if on := s.Job(celltest.Name("j")).Task(slotOf("j", i)).Placement.GetNode(); c.GetNode() != on {
				t.Errorf("%s is said to be on %s; it is on %s", c.GetTask(), c.GetNode(), on)
			}
		}
		if first := d.GetChosen()[0].GetNode(); first != d.Groups[0].Best[0].GetNode() {
			t.Errorf("the first task went to %s; the best node is said to be %s", first, d.Groups[0].Best[0].GetNode())
		}
		cell.Status(slotOf("j", 0), task.Running)
		cell.Submit(celltest.Job{Name: "high", CPU: 7000, Precedence: 200})
		s = cell.Until("high is placed", placed("high", 1))
		p = s.Job(celltest.Name("high")).Task(slotOf("high", 0)).Placement
		d = decided(cell, "batch", p.GetTxn())
		if len(d.GetChosen()) != 1 || len(d.Chosen[0].GetVictims()) != len(p.GetVictims()) || len(p.GetVictims()) == 0 {
			t.Errorf("chosen: %v; the placement has the victims %v", d.GetChosen(), p.GetVictims())
		}
		if a := ask(cell, &ohmv1.Ask{Scheduler: "batch", Instance: "a", Transaction: "T0"}); a.GetDecision() != nil {
			t.Errorf("of what it never decided it says %v", a.GetDecision())
		}
	})
}

// The log is bounded by claims: what is older than so many is not there any more.
func TestDecisionLogIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 100_000_000})
		cell.Run("batch", "a", batch.New())
		cell.Submit(celltest.Job{Name: "first", CPU: 1})
		s := cell.Until("the first is placed", placed("first", 1))
		id := s.Job(celltest.Name("first")).Tasks[0].Placement.GetTxn()
		if decided(cell, "batch", id) == nil {
			t.Fatal("it is not there before")
		}
		cell.Submit(celltest.Job{Name: "many", CPU: 1, Count: 10_000})
		s = cell.Until("all are placed", placed("many", 10_000))
		if d := decided(cell, "batch", id); d != nil {
			t.Errorf("after 10,000 more claims it is still there: %v", d)
		}
		for _, tk := range s.Job(celltest.Name("many")).Tasks {
			if tk.Slot.Index == 9_999 {
				id = tk.Placement.GetTxn()
			}
		}
		if decided(cell, "batch", id) == nil {
			t.Error("the newest is not there")
		}
	})
}

// A lost race is in the log with its winner.
func TestDecisionLogOfALoser(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		decides, may := make(chan bool, 1), make(chan bool)
		cell.Run("batch", "a", late{batch.New(), decides, may})
		cell.Run("service", "a", service.New())
		cell.Submit(celltest.Job{Name: "j", CPU: 4000})
		<-decides
		cell.Submit(celltest.Job{Name: "k", Kind: "service", CPU: 4000})
		cell.Until("k is placed", placed("k", 1))
		close(may)
		s := cell.Until("batch has lost", func(s *cellstate.Snapshot) bool { return len(conflicts(s, "batch")) > 0 })
		c := conflicts(s, "batch")[0]
		d := decided(cell, "batch", c.GetTxn())
		if d.GetOutcome() != "Lost" || len(d.GetLost()) != 1 || d.Lost[0].GetWinnerScheduler() != "service" || d.Lost[0].GetWinner() != "k/main/0" || d.Lost[0].GetReason() != c.GetReason() {
			t.Errorf("the decision is %v; the journal says %v", d, c)
		}
	})
}

// late has its snapshot when it says that it decides, and answers when it may.
type late struct {
	*batch.Policy
	decides chan<- bool
	may     <-chan bool
}

func (p late) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	select {
	case p.decides <- true:
	default:
	}
	<-p.may
	return p.Policy.Schedule(ctx, in)
}

// Since when a group has waited survives the scheduler, and ends when the wait does; what would
// help is said with numbers.
func TestCase74SinceAndRemedy(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n6", CPU: 8000, Memory: 4 << 30}, celltest.Node{Name: "n7", CPU: 8000, Memory: 8 << 30})
		cell.Submit(celltest.Job{Name: "fill", CPU: 1, Memory: 2 << 30, Constraints: []*ohmv1.Constraint{{Key: "node", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"n7"}}}})
		first := cell.Run("batch", "a", batch.New())
		cell.Until("fill is placed", placed("fill", 1))
		cell.Submit(celltest.Job{Name: "j", CPU: 1000, Memory: 8 << 30})
		g := schedtest.Word(cell.Until("it waits", waits("j")), "j").GetGroups()[0]
		since := g.GetSince().AsTime()
		if d := time.Since(since); d < 0 || d > time.Minute {
			t.Errorf("it has waited for %v", d)
		}
		if r := g.GetReasons(); len(r) != 1 || r[0].GetRemedy() != "needs 2Gi more of memory on n7" {
			t.Errorf("the reasons are %v; want one, with n7's 2 GiB", r)
		}
		first.Stop()
		<-time.After(time.Minute) // of the bubble
		cell.Run("batch", "a", batch.New())
		cell.Up(celltest.Node{Name: "n8", CPU: 1000, Memory: 1 << 30})
		s := cell.Until("it is said anew", func(s *cellstate.Snapshot) bool {
			return schedtest.Word(s, "j") != nil && schedtest.Word(s, "j").GetGroups()[0].GetNodes() == 3
		})
		if again := schedtest.Word(s, "j").GetGroups()[0].GetSince().AsTime(); !again.Equal(since) {
			t.Errorf("a new process says that it has waited since %v; it has since %v", again, since)
		}
		cell.Release(slotOf("fill", 0), task.Succeeded)
		cell.Until("it is placed", placed("j", 1))
	})
}
