package jobspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestParseRules(t *testing.T) {
	got := accepted(t, `job: store
kind: service
groups:
  - name: main
    command: [sleep, 5]
    cpu: 1
    memory: 0
    distinct: node
    spread: {over: zone, maxSkew: 2, shares: {a: 2, b: 1}, required: false}
    affinity:
      - {to: {job: queue, group: main}, within: rack}
    antiAffinity:
      - {within: node}
      - {to: {labels: {app: db}}, within: zone, required: false}
`).Groups[0]
	want := &ohmv1.Group{
		Affinity: []*ohmv1.Affinity{{To: &ohmv1.Selector{Job: "queue", Group: "main"}, Within: "rack", Required: true}},
		AntiAffinity: []*ohmv1.Affinity{
			{Within: "node", Required: true},
			{To: &ohmv1.Selector{Labels: map[string]string{"app": "db"}}, Within: "zone"},
		},
		Distinct: "node",
		Spread:   &ohmv1.Spread{Over: "zone", MaxSkew: 2, Shares: map[string]int32{"a": 2, "b": 1}},
	}
	if diff := cmp.Diff(want, &ohmv1.Group{Affinity: got.Affinity, AntiAffinity: got.AntiAffinity, Distinct: got.Distinct, Spread: got.Spread}, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestRulesAreRefused(t *testing.T) {
	for _, row := range []struct {
		rules string
		want  []string
	}{
		{"affinity: [{to: {job: web}}]", []string{"5:16: within is missing; it says how near is near, e.g. within: node"}},
		{"antiAffinity: {within: node}", []string{"5:19: antiAffinity must be a list, not a map; write antiAffinity: […]"}},
		{"antiAffinity: [{to: {job: web, labels: {a: b}}, within: node}]", []string{"5:25: antiAffinity.to has job and labels; it takes one of them"}},
		{"antiAffinity: [{to: {labels: {}}, within: node}]", []string{"5:34: to.labels is empty; leave it out for the tasks of this job"}},
		{"antiAffinity: [{to: {job: Web}, within: node, topologyKey: zone}]", []string{
			`5:31: job name "Web" is not allowed; use 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends`,
			`5:51: unknown key "topologyKey"; did you mean "within"?`}},
		{"spread: {maxSkew: 0}", []string{
			"5:13: spread.over is missing; it names a label or attribute of nodes, e.g. over: zone",
			"5:23: spread.maxSkew 0 is not at least 1"}},
		{"spread: {over: zone, shares: {a: 0, b: half}}", []string{
			`5:38: the share "0" of "a" is not a whole number from 1`, `5:44: the share "half" of "b" is not a whole number from 1`}},
		{"distinct: \"\"", []string{"5:15: distinct is empty"}},
	} {
		var want []string
		for _, w := range row.want {
			want = append(want, "job.yaml:"+w)
		}
		refused(t, with(t, "count: 4", row.rules), want...)
	}
}

// Whatever client sends it: an ml or system job has no rules yet, and a message says less than
// a file can.
func TestValidateRules(t *testing.T) {
	for kind, want := range map[string][]string{
		"service": nil, "batch": nil,
		"ml":     nil,
		"system": {"affinity is only for service, batch and ml jobs, and this is a system job", "distinct is only for service, batch and ml jobs, and this is a system job"},
	} {
		j := sound()
		j.Kind, j.Groups[0].Count = kind, 0
		j.Groups[0].Affinity = []*ohmv1.Affinity{{Within: "zone"}}
		j.Groups[0].Distinct = "node"
		var got []string
		for _, p := range Validate(j) {
			got = append(got, p.Message)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", kind, diff)
		}
	}
	j := sound()
	j.Kind, j.Groups[0].Spread = "batch", &ohmv1.Spread{Over: "a b", Shares: map[string]int32{"x": -1}}
	if got := Validate(j); len(got) != 3 {
		t.Errorf("%v", got)
	}
}
