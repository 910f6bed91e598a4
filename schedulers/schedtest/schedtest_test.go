package schedtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFirstFitConforms(t *testing.T) { schedtest.Conformance(t, schedtest.FirstFit{}) }

// bent is FirstFit with one thing wrong.
type bent struct {
	bend  func(schedulers.Input, *schedulers.Proposal)
	calls *int
}

func (b bent) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	out, err := schedtest.FirstFit{}.Schedule(ctx, in)
	*b.calls++
	b.bend(in, &out)
	return out, err
}

// A kit that finds nothing wrong with a wrong policy is worth nothing: each rule is
// broken here, and must be found.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	cell := schedtest.New(t)
	cell.Up(celltest.Node{Name: "n1", CPU: 6000}, celltest.Node{Name: "n2", CPU: 6000, GPUs: 2, Model: "T4"})
	cell.Up(celltest.Node{Name: "n3", CPU: 6000}) // in flight
	cell.Job(celltest.Job{Name: "low", Scheduler: "s", CPU: 100})
	low := cell.Place("low", 0, "n1")
	cell.Job(celltest.Job{Name: "batch", Scheduler: "s", Precedence: 100, Count: 2, CPU: 1000})
	cell.Job(celltest.Job{Name: "gang", Kind: "ml", Scheduler: "s", Gang: true, Count: 2, CPU: 1000})
	cell.Job(celltest.Job{Name: "huge", Scheduler: "s", CPU: 9000})
	cell.Job(celltest.Job{Name: "gpu", Scheduler: "s", GPUs: 1, Models: []string{"T4"}})
	cell.Job(celltest.Job{Name: "sys", Kind: "system", Scheduler: "s", CPU: 100})
	s := cell.Snapshot()
	in := schedulers.Input{Snapshot: s, Limits: cell.Store.Limits(), InFlight: map[cellstate.NodeName]bool{"n3": true}}
	for j := range s.JobsOf("s") {
		in.Work = append(in.Work, schedulers.Work{Job: j, Needs: reconcile.Job(s, j, j.Record.GetSubmitTime().AsTime()).Needs})
	}
	of := func(out *schedulers.Proposal, job string) *cellstate.Txn {
		for _, txn := range out.Txns {
			if txn.Claims[0].Slot.Job == job {
				return txn
			}
		}
		t.Fatalf("nothing of %s is claimed", job)
		return nil
	}
	evicts := func(_ schedulers.Input, out *schedulers.Proposal) {
		of(out, "batch").Claims[0].Victims = []*ohmv1.Victim{{Slot: low.Slot.Proto(), Attempt: low.GetAttempt(), Txn: low.GetTxn()}}
	}
	calls := 0
	for _, row := range []struct {
		rule, name string
		bend       func(schedulers.Input, *schedulers.Proposal)
	}{
		{"", "nothing", func(schedulers.Input, *schedulers.Proposal) {}},
		{"C1", "it has moods", func(_ schedulers.Input, out *schedulers.Proposal) {
			if calls%2 == 0 {
				of(out, "batch").Claims[0].Node = "n2"
			}
		}},
		{"C2", "it claims twice", func(_ schedulers.Input, out *schedulers.Proposal) {
			txn := of(out, "batch")
			txn.Claims = append(txn.Claims, txn.Claims[0])
		}},
		{"C2", "it invents", func(_ schedulers.Input, out *schedulers.Proposal) { of(out, "batch").Claims[0].Slot.Index = 7 }},
		{"C2", "it miscounts attempts", func(_ schedulers.Input, out *schedulers.Proposal) { of(out, "batch").Claims[0].Attempt = 2 }},
		{"C2", "it forgets", func(_ schedulers.Input, out *schedulers.Proposal) { out.Unplaced = nil }},
		{"C2", "it explains what it claims", func(_ schedulers.Input, out *schedulers.Proposal) {
			u := &out.Unplaced[0]
			u.Slots = append(u.Slots, of(out, "batch").Claims[0].Slot)
		}},
		{"C3", "it knows the node better", func(_ schedulers.Input, out *schedulers.Proposal) {
			c := of(out, "sys").Claims
			c[0].Node, c[1].Node = c[1].Node, c[0].Node
		}},
		{"C4", "it crowds", func(_ schedulers.Input, out *schedulers.Proposal) {
			of(out, "batch").Claims[0].Resources = &ohmv1.Resources{CpuMilli: 5000}
		}},
		{"C4", "it skimps", func(_ schedulers.Input, out *schedulers.Proposal) {
			of(out, "batch").Claims[0].Resources = &ohmv1.Resources{CpuMilli: 1}
		}},
		{"C4", "it forgets the GPU", func(_ schedulers.Input, out *schedulers.Proposal) { of(out, "gpu").Claims[0].GPUs = nil }},
		{"C5", "it cannot add", func(_ schedulers.Input, out *schedulers.Proposal) {
			r := proto.CloneOf(out.Unplaced[0].Reasons[0])
			r.Nodes--
			out.Unplaced[0].Reasons = append([]*ohmv1.Reason{r}, out.Unplaced[0].Reasons[1:]...)
		}},
		{"C6", "it tears a gang", func(_ schedulers.Input, out *schedulers.Proposal) { of(out, "gang").Mode = cellstate.Incremental }},
		{"C6", "it splits a gang", func(_ schedulers.Input, out *schedulers.Proposal) {
			txn := of(out, "gang")
			out.Txns = append(out.Txns, &cellstate.Txn{Mode: cellstate.Atomic, Claims: slices.Clone(txn.Claims[1:])})
			txn.Claims = txn.Claims[:1]
		}},
		{"C7", "it scribbles", func(in schedulers.Input, _ *schedulers.Proposal) { in.Snapshot.Node("n1").Facts.BootId += "!" }},
		{"C10", "it evicts without leave", evicts},
		{"C9", "it cannot wait", func(_ schedulers.Input, out *schedulers.Proposal) { of(out, "batch").Claims[0].Node = "n3" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			calls = 0
			err := schedtest.Check(t, bent{row.bend, &calls}, in, nil)
			switch {
			case row.rule == "" && err != nil:
				t.Errorf("it finds fault where there is none: %v", err)
			case row.rule != "" && (err == nil || !strings.HasPrefix(err.Error(), row.rule+":")):
				t.Errorf("found %v, want %s", err, row.rule)
			}
		})
	}
	for ran, rule := range map[time.Duration]string{10 * time.Second: "", 9 * time.Second: "C10"} {
		in.Evictions = schedulers.Evictions{Most: 1, MinRun: 10 * time.Second, Now: low.GetTime().AsTime().Add(ran)}
		if err := schedtest.Check(t, bent{evicts, &calls}, in, nil); (err == nil) != (rule == "") || err != nil && !strings.HasPrefix(err.Error(), rule+":") {
			t.Errorf("when it evicts what has run for %v: %v; want %q", ran, err, rule)
		}
	}
}
