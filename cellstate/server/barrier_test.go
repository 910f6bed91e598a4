package server_test

import (
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What changes which rules hold between tasks, without adding any, keeps off the requests that
// are under way; everything else leaves them alone.
func TestBarrierWhereRulesChange(t *testing.T) {
	w := serve(t, nil)
	apart := func(to *ohmv1.Selector, within string, required bool) []*ohmv1.Affinity {
		return []*ohmv1.Affinity{{To: to, Within: within, Required: required}}
	}
	other, own := &ohmv1.Selector{Job: "loud"}, &ohmv1.Selector{}
	label := func(node, value string) func() {
		return func() {
			if _, err := w.nodes.SetIntent(w.ctx, &ohmv1.SetIntentRequest{Node: node, Labels: map[string]string{"zone": value}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	submit := func(j celltest.Job) func() { return func() { w.submit(j) } }
	w.cell.Node(celltest.Node{Name: "n1"})
	w.cell.Node(celltest.Node{Name: "empty"})
	for _, step := range []struct {
		name string
		do   func()
		bars bool
	}{
		{"a plain job", submit(celltest.Job{Name: "loud"}), false},
		{"a rule about other jobs", submit(celltest.Job{Name: "a", AntiAffinity: apart(other, "zone", true)}), true},
		{"the same again", submit(celltest.Job{Name: "a", Count: 2, AntiAffinity: apart(other, "zone", true)}), false},
		{"one within a node, whose fence keeps it", submit(celltest.Job{Name: "b", AntiAffinity: apart(other, "node", true)}), false},
		{"one that is preferred", submit(celltest.Job{Name: "c", AntiAffinity: apart(other, "zone", false)}), false},
		{"one about the job itself", submit(celltest.Job{Name: "d", AntiAffinity: apart(own, "zone", true), Spread: &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true}}), false},
		{"labels that change", submit(celltest.Job{Name: "loud", Labels: map[string]string{"app": "x"}}), true},
		{"the domain of a node without tasks", label("empty", "a"), false},
		{"a task", func() { w.cell.Place("loud", 0, "n1") }, false},
		{"the domain of a node with one", label("n1", "a"), true},
		{"a label that stays", label("n1", "a"), false},
	} {
		// meta/quotas is what each write of claims compares.
		_, before := w.cell.Snapshot().Meta("quotas")
		step.do()
		if _, after := w.cell.Snapshot().Meta("quotas"); (after != before) != step.bars {
			t.Errorf("%s: the barrier went from %d to %d", step.name, before, after)
		}
	}
	s := w.cell.Snapshot()
	plan := cellstate.MakePlan(s, time.Now(), 10, []*cellstate.Txn{celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, celltest.Name("c"), "main", 0), "n1"))},
		func(cellstate.ClaimRef) bool { return false })
	if claims := plan.Writes[0]; claims.Guards[0].Key != cellstate.MetaKey("quotas") || len(claims.Guards) != 3 || len(claims.Fences) != 1 {
		t.Errorf("a plain claim compares %v and %v", claims.Guards, claims.Fences)
	}
}
