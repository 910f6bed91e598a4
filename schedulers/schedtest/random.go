package schedtest

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// submitted is when the random jobs were submitted.
var submitted = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// randomInput draws a cell with all that makes a choice hard: nodes that are full,
// drained, hollow, labelled or without a session, GPUs that are shared, jobs with
// constraints and models, jobs of which a part is placed.
func randomInput(t *rapid.T, kinds []string) schedulers.Input {
	d := &drawn{t: t}
	for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
		d.node(fmt.Sprintf("n%d", i))
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		d.job(fmt.Sprintf("j%d", i), rapid.SampledFrom(kinds).Draw(t, "kind"))
	}
	s, err := cellstate.NewSnapshot(cellstate.Revision(len(d.records)), d.records, nil)
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	in := schedulers.Input{
		Snapshot: s, Seed: rapid.Uint64().Draw(t, "seed"), Limits: cellstate.Limits{Claims: 1000},
		Home: schedulers.Home{Of: rapid.IntRange(0, 3).Draw(t, "instances")},
	}
	if in.Home.Of > 1 {
		in.Home.Index = rapid.IntRange(0, in.Home.Of-1).Draw(t, "instance")
	}
	if rapid.Bool().Draw(t, "evicts") {
		in.Now = submitted
		in.Evictions = schedulers.Evictions{Now: submitted, Most: rapid.IntRange(0, 3).Draw(t, "victims"), MinRun: time.Second, PerTask: 1}
	}
	if rapid.IntRange(0, 2).Draw(t, "requests under way") == 0 {
		in.InFlight = map[cellstate.NodeName]bool{}
		for n := range s.Nodes() {
			if rapid.Bool().Draw(t, "in flight") {
				in.InFlight[n.Name] = true
			}
		}
	}
	for j := range s.JobsOf(theScheduler) {
		if needs := reconcile.Job(s, j, submitted).Needs; len(needs) > 0 {
			in.Work = append(in.Work, schedulers.Work{Job: j, Needs: needs})
		}
	}
	return in
}

const theScheduler = "conformance"

// drawn collects the records of a random cell.
type drawn struct {
	t       *rapid.T
	records []cellstate.Change
	nodes   []*ohmv1.Node
}

func (d *drawn) put(c cellstate.Change) {
	c.Revision = cellstate.Revision(len(d.records) + 1)
	d.records = append(d.records, c)
}

func (d *drawn) node(name string) {
	n := celltest.Node{
		Name: name, CPU: rapid.SampledFrom([]int64{1000, 4000, 64_000}).Draw(d.t, "cpu"),
		GPUs: rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(d.t, "gpus"), Model: rapid.SampledFrom([]string{"T4", "V100"}).Draw(d.t, "model"),
		Attributes: map[string]string{"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(d.t, "zone")},
	}
	if rapid.IntRange(0, 5).Draw(d.t, "hollow") == 0 {
		n.Attributes["hollow"] = "true"
	}
	facts := n.Proto()
	d.nodes = append(d.nodes, facts)
	d.put(cellstate.Change{Key: cellstate.NodeKey(cellstate.NodeName(name)), Value: facts})
	if rapid.IntRange(0, 5).Draw(d.t, "dead") != 0 {
		d.put(cellstate.Change{Key: cellstate.AliveKey(cellstate.NodeName(name)), Value: &ohmv1.Alive{Node: name}})
	}
	intent := &ohmv1.Intent{Node: name, Ineligible: rapid.IntRange(0, 7).Draw(d.t, "ineligible") == 0, Drain: rapid.IntRange(0, 7).Draw(d.t, "drain") == 0}
	d.put(cellstate.Change{Key: cellstate.IntentKey(cellstate.NodeName(name)), Value: intent})
}

// rules draws the labels of a job and, where its kind may have them, rules between its tasks
// and others.
func (d *drawn) rules(j *celltest.Job) {
	if app := rapid.SampledFrom([]string{"", "", "x"}).Draw(d.t, "app"); app != "" {
		j.Labels = map[string]string{"app": app}
	}
	if j.Kind == "ml" || j.Kind == "system" {
		return
	}
	affinity := func() []*ohmv1.Affinity {
		return []*ohmv1.Affinity{{
			To:       rapid.SampledFrom([]*ohmv1.Selector{{}, {Labels: map[string]string{"app": "x"}}, {Job: "j0"}, {Job: "j1"}}).Draw(d.t, "to"),
			Within:   rapid.SampledFrom([]string{"node", "zone"}).Draw(d.t, "within"),
			Required: rapid.IntRange(0, 2).Draw(d.t, "required") > 0,
		}}
	}
	switch rapid.IntRange(0, 9).Draw(d.t, "rule") {
	case 6:
		j.AntiAffinity = affinity()
	case 7:
		j.Affinity = affinity()
	case 8:
		j.Distinct = rapid.SampledFrom([]string{"node", "zone"}).Draw(d.t, "distinct")
	case 9:
		j.Spread = &ohmv1.Spread{Over: rapid.SampledFrom([]string{"node", "zone"}).Draw(d.t, "over"), MaxSkew: int32(rapid.IntRange(1, 2).Draw(d.t, "skew")), Required: rapid.Bool().Draw(d.t, "required")}
		if rapid.IntRange(0, 2).Draw(d.t, "shares") == 0 {
			j.Spread.Shares = map[string]int32{"a": 2, "b": 1}
		}
	}
}

// job draws a job, of which some tasks of a batch or service job are placed already.
func (d *drawn) job(name, kind string) {
	j := celltest.Job{
		Name: name, Kind: kind, Scheduler: theScheduler, Gang: kind == "ml", Retries: 1,
		Precedence: rapid.SampledFrom([]int{0, 100, 200}).Draw(d.t, "precedence"),
		Count:      rapid.IntRange(1, 5).Draw(d.t, "count"),
		CPU:        rapid.SampledFrom([]int64{0, 500, 1000, 3000}).Draw(d.t, "cpu"),
		Memory:     rapid.SampledFrom([]int64{0, 1 << 30, 10 << 30}).Draw(d.t, "memory"),
	}
	switch rapid.IntRange(0, 4).Draw(d.t, "devices") {
	case 0:
		j.GPUs = rapid.IntRange(1, 2).Draw(d.t, "gpus")
	case 1:
		j.GPUs, j.Share = 1, rapid.SampledFrom([]int{1, 400, 700}).Draw(d.t, "share")
	}
	if j.GPUs > 0 && rapid.Bool().Draw(d.t, "choosy") {
		j.Models = []string{"V100"}
	}
	switch rapid.IntRange(0, 4).Draw(d.t, "constraint") {
	case 0:
		j.Constraints = []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"a"}}}
	case 1:
		j.Constraints = []*ohmv1.Constraint{{Key: "hollow", Op: ohmv1.Operator_OPERATOR_EXISTS}}
	}
	d.rules(&j)
	record := &ohmv1.Job{Spec: j.Proto(), Version: 1, SubmitTime: timestamppb.New(submitted)}
	d.put(cellstate.Change{Key: cellstate.JobKey(celltest.Name(name)), Value: record})
	if kind == "ml" || kind == "system" || len(d.nodes) == 0 {
		return
	}
	g := record.Spec.Groups[0]
	for i := range rapid.IntRange(0, 2).Draw(d.t, "placed") {
		if i >= j.Count {
			return
		}
		slot := cellstate.Slot{Namespace: "default", Job: name, Group: "main", Index: i, Version: 1}
		n := rapid.SampledFrom(d.nodes).Draw(d.t, "on")
		p := &ohmv1.Placement{
			Slot: slot.Proto(), Attempt: 1, Node: n.GetName(), Resources: g.GetResources(), Precedence: record.Spec.GetPrecedence(),
			Scheduler: theScheduler, Txn: fmt.Sprintf("T%s%d", name, i),
			Time: timestamppb.New(submitted.Add(-time.Duration(rapid.IntRange(0, 2).Draw(d.t, "ran")) * time.Second)),
		}
		if g.GetGpus() != nil && len(n.GetGpus()) > 0 {
			milli := g.GetGpus().GetShareMilli()
			if milli == 0 {
				milli = 1000
			}
			p.Gpus = []*ohmv1.DeviceShare{{Id: n.GetGpus()[0].GetId(), Milli: milli}}
		}
		d.put(cellstate.Change{Key: slot.PlacementKey(), Value: p})
	}
}
