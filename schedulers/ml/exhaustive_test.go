package ml_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// smallCell draws a cell of up to three nodes and a gang of up to five tasks in two or
// three groups, for which there is hardly enough room.
func smallCell(t *rapid.T) string {
	n := func(what string, from, to int) int { return rapid.IntRange(from, to).Draw(t, what) }
	one := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	var b strings.Builder
	for i := range n("nodes", 1, 3) {
		var models []string
		for range n("gpus", 0, 2) {
			models = append(models, one("model", "T4", "V100"))
		}
		fmt.Fprintf(&b, "node n%d cpu=%d memory=8Gi gpus=%s zone=%s\n", i, n("cpu", 2, 8), strings.Join(models, ","), one("zone", "a", "b"))
	}
	fmt.Fprintf(&b, "seed %d\njob train kind=ml%s%s\n", n("seed", 0, 9), one("within", "", "", " within=zone", " prefer=zone"), one("min", "", "", " min=2", " min=3"))
	tasks := 5
	for g := range n("groups", 2, 3) {
		count := n("count", 1, min(2, tasks))
		tasks -= count
		fmt.Fprintf(&b, "group g%d count=%d cpu=%d%s", g, count, n("asks cpu", 1, 5), one("group min", "", "", " min=1"))
		switch one("gpu", "none", "share", "whole") {
		case "share":
			fmt.Fprintf(&b, " gpus=1 share=%s", one("share", "300m", "400m", "500m", "600m", "700m"))
			b.WriteString(one("models", "", " models=T4", " models=V100"))
		case "whole":
			fmt.Fprintf(&b, " gpus=%d", n("asks gpus", 1, 2))
			b.WriteString(one("models", "", " models=T4", " models=V100"))
		}
		b.WriteString(one("constraint", "", "", " in=zone:a", " distinct=node"))
		b.WriteString(one("rule", "", "", " distinct=zone", " spread=zone", " apart=group:g0@node", " near=group:g1@zone", " near=@node", " near=group:g0@node") + "\n")
		if tasks == 0 {
			break
		}
	}
	return b.String()
}

// exhaust tries every part of the gang that it may start with, as reconcile says, every order of
// the groups, every node and every choice of devices for each need, and leaves the judgement of
// what it tries to the commit's own rule. nil: no choice fits.
func exhaust(s *cellstate.Snapshot, w schedulers.Work) []cellstate.Claim {
	for set := range 1 << len(w.Needs) {
		part := schedulers.Work{Job: w.Job}
		by := map[string]int{}
		for i, n := range w.Needs {
			if set>>i&1 == 0 {
				part.Needs = append(part.Needs, n)
				by[n.Slot.Group]++
			}
		}
		if starts(w, len(part.Needs), by) {
			if claims := exhaustWhole(s, part); claims != nil {
				return claims
			}
		}
	}
	return nil
}

// starts says whether so many claims, of each group so many, are enough for the gang.
func starts(w schedulers.Work, claims int, by map[string]int) bool {
	gang := w.Needs[0].Gang
	for group, n := range gang.Groups {
		if by[group] < n {
			return false
		}
	}
	return claims >= gang.Least
}

func exhaustWhole(s *cellstate.Snapshot, w schedulers.Work) []cellstate.Claim {
	var claims []cellstate.Claim
	var next func(needs []reconcile.Need) bool
	next = func(needs []reconcile.Need) bool {
		if len(needs) == 0 {
			return true
		}
		for n := range s.Nodes() {
			for _, gpus := range deviceSets(n, needs[0].Group) {
				had := len(claims)
				claims = append(claims, claim(w, needs[0], n.Name, gpus))
				if fits(s, claims) && next(needs[1:]) {
					return true
				}
				claims = claims[:had]
			}
		}
		return false
	}
	groups := w.Job.Record.GetSpec().GetGroups()
	for order := range factorial(len(groups)) {
		var needs []reconcile.Need
		left := slices.Clone(groups)
		for n := len(left); n > 0; n-- {
			g := left[order%n]
			order /= n
			left = slices.DeleteFunc(left, func(o *ohmv1.Group) bool { return o == g })
			for _, need := range w.Needs {
				if need.Group == g {
					needs = append(needs, need)
				}
			}
		}
		if next(needs) {
			return claims
		}
	}
	return nil
}

func factorial(n int) int {
	if n < 2 {
		return 1
	}
	return n * factorial(n-1)
}

func claim(w schedulers.Work, need reconcile.Need, node cellstate.NodeName, gpus []*ohmv1.DeviceShare) cellstate.Claim {
	return cellstate.Claim{
		Slot: need.Slot, Attempt: need.Attempt, Node: node, Resources: need.Group.GetResources(), GPUs: gpus,
		Precedence: int(w.Job.Record.GetSpec().GetPrecedence()), JobRevision: w.Job.Revision,
	}
}

func fits(s *cellstate.Snapshot, claims []cellstate.Claim) bool {
	_, conflicts := cellstate.Validate(s, &cellstate.Txn{
		ID: "tried", Scheduler: "ml", Mode: cellstate.Atomic, Snapshot: s.Revision(), Claims: slices.Clone(claims),
	})
	return len(conflicts) == 0
}

// deviceSets are all choices of a node's devices that are of the number and of a model
// that the group asks for.
func deviceSets(n *cellstate.Node, g *ohmv1.Group) (sets [][]*ohmv1.DeviceShare) {
	milli := g.GetGpus().GetShareMilli()
	if milli == 0 {
		milli = 1000
	}
	devices := n.Facts.GetGpus()
	for set := range 1 << len(devices) {
		var gpus []*ohmv1.DeviceShare
		allowed := true
		for i, d := range devices {
			if set>>i&1 == 1 {
				gpus = append(gpus, &ohmv1.DeviceShare{Id: d.GetId(), Milli: milli})
				allowed = allowed && (len(g.GetGpus().GetModels()) == 0 || slices.Contains(g.GetGpus().GetModels(), d.GetModel()))
			}
		}
		if allowed && len(gpus) == int(g.GetGpus().GetCount()) {
			sets = append(sets, gpus)
		}
	}
	return sets
}

// A gang that an exhaustive search can place, whole or with its minimums, is placed in one
// transaction; one that it cannot place is not.
func TestGangsThatFitAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := placetest.Input(t, smallCell(t))
		want := exhaust(in.Snapshot, in.Work[0])
		p, err := ml.New().Schedule(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		placetest.Check(t, in, p)
		switch {
		case want == nil && len(p.Txns) > 0:
			t.Fatalf("placed, although no choice fits:\n%s", placetest.Print(p))
		case want != nil && len(p.Txns) == 0:
			t.Fatalf("waits, although it fits as %v:\n%s", want, placetest.Print(p))
		case want != nil:
			by := map[string]int{}
			for _, c := range p.Txns[0].Claims {
				by[c.Slot.Group]++
			}
			if len(p.Txns) != 1 || !starts(in.Work[0], len(p.Txns[0].Claims), by) {
				t.Fatalf("not its minimum:\n%s", placetest.Print(p))
			}
		}
	})
}
