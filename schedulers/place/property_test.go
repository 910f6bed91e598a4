package place_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/service"
	"github.com/ohmcell/ohm/schedulers/system"
)

// randomCell draws the text of a cell: nodes of all conditions, some over-committed,
// and jobs of one kind.
func randomCell(t *rapid.T, kind string) string {
	n := func(what string, from, to int) int { return rapid.IntRange(from, to).Draw(t, what) }
	one := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	var b strings.Builder
	nodes := n("nodes", 0, 6)
	devices := make([]int, nodes)
	for i := range nodes {
		devices[i] = n("gpus", 0, 3)
		var models []string
		for range devices[i] {
			models = append(models, one("model", "T4", "V100"))
		}
		fmt.Fprintf(&b, "node n%d cpu=%d memory=%dGi disk=%dGi gpus=%s zone=%s %s\n", i, n("cpu", 0, 8), n("memory", 0, 8), n("disk", 0, 2),
			strings.Join(models, ","), one("zone", "a", "b"), one("condition", "", "", "", "", "dead", "drain", "ineligible", "hollow=true"))
		if rapid.Bool().Draw(t, "held") {
			fmt.Fprintf(&b, "hold n%d precedence=%d cpu=%d memory=1Gi", i, n("held precedence", 90, 110), n("held cpu", 0, 4))
			if devices[i] > 0 {
				fmt.Fprintf(&b, " gpus=0:%d", n("held gpu", 1, 1000))
			}
			fmt.Fprintln(&b)
		}
	}
	fmt.Fprintf(&b, "home %d/3\nseed %d\nlimit %d nodes=%d\n", n("home", 0, 2), n("seed", 0, 9), n("limit", 0, 4), n("limit of nodes", 0, 3))
	for j := range n("jobs", 1, 3) {
		fmt.Fprintf(&b, "job j%d kind=%s precedence=%d min=%d\n", j, kind, n("precedence", 99, 101), n("min", 0, 3))
		for g := range n("groups", 1, 2) {
			count := n("count", 1, 4)
			fmt.Fprintf(&b, "group g%d count=%d cpu=%d memory=%dGi disk=%dGi", g, count, n("asks cpu", 0, 4), n("asks memory", 0, 4), n("asks disk", 0, 1))
			switch one("gpu", "none", "share", "whole") {
			case "share":
				fmt.Fprintf(&b, " gpus=1 share=%dm", n("share", 1, 1000))
			case "whole":
				fmt.Fprintf(&b, " gpus=%d", n("asks gpus", 1, 3))
			}
			text := b.String()
			if last := text[strings.LastIndex(text, "\n"):]; strings.Contains(last, " gpus=") {
				b.WriteString(one("models", "", " models=T4", " models=V100", " models=T4|V100"))
			}
			b.WriteString(one("constraint", "", "", " in=zone:a", " exists=hollow"))
			b.WriteString(one("rule", "", "", "", " distinct=node", " distinct=zone") + "\n")
			if nodes > 0 && kind != "system" && rapid.Bool().Draw(t, "live") {
				i := n("on", 0, nodes-1)
				fmt.Fprintf(&b, "live j%d/g%d/0 n%d", j, g, i)
				if devices[i] > 0 {
					fmt.Fprintf(&b, " gpus=0:%d", n("uses", 1, 1000))
				}
				fmt.Fprintln(&b)
			}
		}
	}
	return b.String()
}

// The filters say of a node that it takes a task if and only if the node is ready, asked
// for if it is simulated, and cellstate accepts the claim with some choice of devices.
func TestFiltersAgreeWithValidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := placetest.Input(t, randomCell(t, "batch"))
		_, err := place.NewTable().Each(context.Background(), in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
			for _, need := range w.Needs {
				q := r.Request(w.Job, need.Group)
				for n := range in.Snapshot.Nodes() {
					_, fits := r.Only(q, n.Name)
					if want := takes(in.Snapshot, n, w, need.Slot, need.Attempt, need.Group); fits != want {
						t.Fatalf("%s on %s: the filters say %v, cellstate %v", need.Slot, n.Name, fits, want)
					}
				}
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// takes tries every choice of devices of an allowed model.
func takes(s *cellstate.Snapshot, n *cellstate.Node, w schedulers.Work, slot cellstate.Slot, attempt int, g *ohmv1.Group) bool {
	asks := slices.ContainsFunc(g.GetConstraints(), func(c *ohmv1.Constraint) bool { return c.GetKey() == "hollow" })
	if hollow, _ := n.Label("hollow"); n.Alive == nil || (hollow == "true" && !asks) {
		return false
	}
	share := g.GetGpus().GetShareMilli()
	if share == 0 {
		share = 1000
	}
	devices := n.Facts.GetGpus()
	for set := range 1 << len(devices) {
		var gpus []*ohmv1.DeviceShare
		allowed := true
		for i, d := range devices {
			if set>>i&1 == 1 {
				gpus = append(gpus, &ohmv1.DeviceShare{Id: d.GetId(), Milli: share})
				models := g.GetGpus().GetModels()
				allowed = allowed && (len(models) == 0 || slices.Contains(models, d.GetModel()))
			}
		}
		if !allowed || len(gpus) != int(g.GetGpus().GetCount()) {
			continue
		}
		txn := &cellstate.Txn{ID: "new", Scheduler: "batch", Mode: cellstate.Incremental, Snapshot: s.Revision(), Claims: []cellstate.Claim{{
			Slot: slot, Attempt: attempt, Node: n.Name, Resources: g.GetResources(), GPUs: gpus,
			Precedence: int(w.Job.Record.GetSpec().GetPrecedence()), JobRevision: w.Job.Revision,
		}}}
		if fit, _ := cellstate.Validate(s, txn); len(fit) == 1 {
			return true
		}
	}
	return false
}

// Whatever the cell, a proposal claims or explains every need once and fits; and a
// policy that has followed the cell through changes decides as a fresh one does.
func TestPoliciesOnRandomCells(t *testing.T) {
	for kind, fresh := range map[string]func() schedulers.Scheduler{
		"batch":   func() schedulers.Scheduler { return batch.New() },
		"service": func() schedulers.Scheduler { return service.New() },
		"ml":      func() schedulers.Scheduler { return ml.New() },
		"system":  func() schedulers.Scheduler { return system.New() },
	} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := placetest.Input(t, randomCell(t, kind))
				worn := fresh()
				for range 4 {
					want := placetest.Propose(t, fresh(), in)
					if got := placetest.Propose(t, worn, in); got != want {
						t.Fatalf("a policy that followed proposes\n%s\na fresh one\n%s", got, want)
					}
					in.Snapshot = change(t, in.Snapshot, fresh(), in)
					in.Work = placetest.Work(in.Snapshot, "j0", "j1", "j2")
					in.InFlight = map[cellstate.NodeName]bool{}
					for n := range in.Snapshot.Nodes() {
						in.InFlight[n.Name] = rapid.IntRange(0, 3).Draw(t, "in flight") == 0
					}
				}
			})
		})
	}
}

// What a job that finds no room is told of all nodes together is what it is told of them one by
// one: each is counted under the first of its own refusals, whether others may be evicted or not.
func TestCase74ReasonsAreThoseOfTheNodes(t *testing.T) {
	type policy interface {
		schedulers.Scheduler
		schedulers.NodeExplainer
	}
	for kind, fresh := range map[string]func() policy{
		"batch":   func() policy { return batch.New() },
		"service": func() policy { return service.New() },
	} {
		t.Run(kind, func(t *testing.T) {
			waited := 0
			rapid.Check(t, func(t *rapid.T) {
				in := placetest.Input(t, randomCell(t, kind))
				in.Now, in.Work = time.Unix(1e9, 0), placetest.Work(in.Snapshot, "j0")
				if rapid.Bool().Draw(t, "evicts") {
					in.Evictions = schedulers.Evictions{Most: rapid.IntRange(0, 3).Draw(t, "most"), Now: in.Now, MinRun: time.Duration(rapid.IntRange(0, 1).Draw(t, "young")) * 1000000 * time.Hour}
				}
				out, err := fresh().Schedule(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				if len(out.Txns) > 0 {
					return // the reasons are those beside what was placed
				}
				for _, u := range out.Unplaced {
					waited++
					want, got := map[string]int32{}, map[string]int32{}
					for _, r := range u.Reasons {
						want[r.GetReason()+"/"+r.GetDimension()] += r.GetNodes()
					}
					for n := range in.Snapshot.Nodes() {
						groups, err := fresh().ExplainNode(t.Context(), in, n.Name)
						if err != nil {
							t.Fatal(err)
						}
						for _, g := range groups {
							if g.GetGroup() != u.Group {
								continue
							}
							if g.GetFits() || len(g.GetRefusals()) == 0 {
								t.Fatalf("%s waits, and is said to fit on %s", u.Job, n.Name)
							}
							got[g.GetRefusals()[0].GetReason()+"/"+g.GetRefusals()[0].GetDimension()]++
						}
					}
					if !maps.Equal(want, got) {
						t.Fatalf("of all nodes together it says %v, one by one %v", want, got)
					}
				}
			})
			if waited == 0 {
				t.Error("no job waited")
			}
		})
	}
}

// Field case 26: a job that waits all the same is told the same of the nodes, whether others may
// be evicted for it or not; only with evictions it may also be told why nothing gives way.
func TestCase26ReasonsAreTheSame(t *testing.T) {
	for kind, fresh := range map[string]func() schedulers.Scheduler{
		"batch":   func() schedulers.Scheduler { return batch.New() },
		"service": func() schedulers.Scheduler { return service.New() },
	} {
		t.Run(kind, func(t *testing.T) {
			told := 0
			rapid.Check(t, func(t *rapid.T) {
				in := placetest.Input(t, randomCell(t, kind))
				in.Now, in.Work = time.Unix(1e9, 0), placetest.Work(in.Snapshot, "j0")
				without, err := fresh().Schedule(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				in.Evictions = schedulers.Evictions{Most: rapid.IntRange(0, 3).Draw(t, "most"), Now: in.Now, MinRun: time.Duration(rapid.IntRange(0, 1).Draw(t, "young")) * 1000000 * time.Hour}
				with, err := fresh().Schedule(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				if len(with.Txns) > 0 {
					return
				}
				for i, u := range with.Unplaced {
					if fmt.Sprint(u.Reasons) != fmt.Sprint(without.Unplaced[i].Reasons) {
						t.Fatalf("with evictions %v; without %v", u.Reasons, without.Unplaced[i].Reasons)
					}
					if without.Unplaced[i].NoVictims != "" || (u.NoVictims == "") != (u.NoVictimsCode == "") {
						t.Fatalf("why nothing gives way: %q (%s); without evictions %q", u.NoVictims, u.NoVictimsCode, without.Unplaced[i].NoVictims)
					}
					if u.NoVictims != "" {
						told++
					}
				}
			})
			if told == 0 {
				t.Error("nobody was told why nothing gives way")
			}
		})
	}
}

// change commits a part of a proposal and, by chance, does other things to the cell.
func change(t *rapid.T, s *cellstate.Snapshot, policy schedulers.Scheduler, in schedulers.Input) *cellstate.Snapshot {
	p, err := policy.Schedule(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, txn := range p.Txns {
		if rapid.Bool().Draw(t, "commit") {
			s = placetest.Commit(t, s, txn)
		}
	}
	var changes []cellstate.Change
	for n := range s.Nodes() {
		switch rapid.IntRange(0, 9).Draw(t, "change") {
		case 0: // its last task leaves
			if last := len(n.Placements()) - 1; last >= 0 {
				changes = append(changes, cellstate.Change{Key: n.Placements()[last].Slot.PlacementKey(), Deleted: true})
			}
		case 1:
			changes = append(changes, cellstate.Change{Key: cellstate.AliveKey(n.Name), Deleted: true})
		case 2:
			changes = append(changes, cellstate.Change{Key: cellstate.NodeKey(n.Name), Deleted: true})
		case 3:
			name := n.Name + "x"
			changes = append(changes, cellstate.Change{Key: cellstate.NodeKey(name), Value: &ohmv1.Node{Name: string(name), Capacity: n.Facts.GetCapacity()}},
				cellstate.Change{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: string(name)}})
		}
	}
	return placetest.Apply(t, s, changes...)
}
