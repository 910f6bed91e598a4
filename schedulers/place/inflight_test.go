package place_test

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/service"
	"github.com/ohmcell/ohm/schedulers/system"
)

// A slot that only nodes in flight would take is left out; one that they would not take
// either is explained.
func TestInFlight(t *testing.T) {
	const two = "node n1 cpu=4\nnode n2 cpu=4\n"
	for _, c := range []struct {
		name, cell string
		policy     schedulers.Scheduler
		inFlight   []cellstate.NodeName
		want       string
	}{
		{"another node", two + "job a kind=batch\ngroup g count=1 cpu=4", batch.New(), []cellstate.NodeName{"n1"}, "incremental\n  a/g/0 n2\n"},
		{"no other node", two + "job a kind=batch\ngroup g count=2 cpu=4", batch.New(), []cellstate.NodeName{"n1"}, "incremental\n  a/g/0 n2\n"},
		{"all in flight", two + "job a kind=service\ngroup g count=2 cpu=4", service.New(), []cellstate.NodeName{"n1", "n2"}, ""},
		{"too small in any case", two + "job a kind=batch\ngroup g count=1 cpu=5", batch.New(), []cellstate.NodeName{"n1", "n2"},
			"unplaced a/g 0 of 2 nodes\n  2 Resources cpu: largest free: 4 of 5 cores on node n1\n"},
		{"by group", two + "job a kind=batch\ngroup g count=1 cpu=4\ngroup h count=1 cpu=5", batch.New(), []cellstate.NodeName{"n1", "n2"},
			"unplaced a/h 0 of 2 nodes\n  2 Resources cpu: largest free: 4 of 5 cores on node n1\n"},
		{"unknown", two + "job a kind=batch\ngroup g count=1 cpu=5", batch.New(), []cellstate.NodeName{"n3"},
			"unplaced a/g 0 of 2 nodes\n  2 Resources cpu: largest free: 4 of 5 cores on node n1\n"},
		{"spread over the others", two + "job a kind=service\ngroup g count=2 cpu=1", service.New(), []cellstate.NodeName{"n1"}, "incremental\n  a/g/0 n2\n  a/g/1 n2\n"},
		{"the node of a need", two + "job a kind=system\ngroup g cpu=1", system.New(), []cellstate.NodeName{"n1"}, "incremental\n  a/g/1 n2\n"},
		{"the full node of a need", "node n1 cpu=1\nnode n2 cpu=4\njob a kind=system\ngroup g cpu=2", system.New(), []cellstate.NodeName{"n1"},
			"incremental\n  a/g/1 n2\nunplaced a/g 0 of 2 nodes\n  1 Resources cpu: largest free: 1 of 2 cores on node n1\n  1 NotAsked -: has its task, or is not to have one\n"},
		{"a gang waits whole", two + "job a kind=ml\ngroup g count=2 cpu=4", ml.New(), []cellstate.NodeName{"n1"}, ""},
		{"a gang that fits beside", two + "job a kind=ml\ngroup g count=2 cpu=2", ml.New(), []cellstate.NodeName{"n1"}, "atomic\n  a/g/0 n2\n  a/g/1 n2\n"},
		{"a gang's least", two + "job a kind=ml min=1\ngroup g count=2 cpu=4", ml.New(), []cellstate.NodeName{"n1"}, "atomic\n  a/g/0 n2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := placetest.Input(t, c.cell)
			in.InFlight = map[cellstate.NodeName]bool{}
			for _, n := range c.inFlight {
				in.InFlight[n] = true
			}
			if got := placetest.Propose(t, c.policy, in); got != c.want {
				t.Errorf("proposed\n%swant\n%s", got, c.want)
			}
			in.InFlight = nil
			placetest.Propose(t, c.policy, in) // once the replies are there, each need is claimed or explained
		})
	}
}

// A policy claims beside nodes in flight what it would claim if their operators kept new
// tasks off them.
func TestInFlightIsIneligible(t *testing.T) {
	for kind, fresh := range map[string]func() schedulers.Scheduler{
		"batch":   func() schedulers.Scheduler { return batch.New() },
		"service": func() schedulers.Scheduler { return service.New() },
		"ml":      func() schedulers.Scheduler { return ml.New() },
		"system":  func() schedulers.Scheduler { return system.New() },
	} {
		t.Run(kind, func(t *testing.T) {
			worn := fresh()
			rapid.Check(t, func(t *rapid.T) {
				in := placetest.Input(t, randomCell(t, kind))
				in.InFlight = map[cellstate.NodeName]bool{}
				without := in
				for n := range in.Snapshot.Nodes() {
					if rapid.IntRange(0, 2).Draw(t, "in flight") == 0 {
						in.InFlight[n.Name] = true
						without.Snapshot = placetest.Apply(t, without.Snapshot, cellstate.Change{Key: cellstate.IntentKey(n.Name), Value: &ohmv1.Intent{Node: string(n.Name), Ineligible: true}})
					}
				}
				without.InFlight = nil
				want, got := claimed(t, fresh(), without), claimed(t, worn, in)
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Fatalf("beside %v in flight it claims, against what it does if they are ineligible:\n%s", in.InFlight, diff)
				}
				placetest.Propose(t, worn, in)
			})
		})
	}
}

func claimed(t *rapid.T, policy schedulers.Scheduler, in schedulers.Input) (all []cellstate.Claim) {
	p, err := policy.Schedule(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, txn := range p.Txns {
		all = slices.Concat(all, txn.Claims)
	}
	return all
}
