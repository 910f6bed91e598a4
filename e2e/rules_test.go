package e2e

import (
	"os"
	"strings"
	"testing"
)

// The example with rules between tasks, on simulated nodes in two zones: each replica has a node
// of its own, the zones have about as many, and each cache has a replica in its zone.
func TestRulesExample(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--hollow-nodes", "4")
	zones := map[string]string{}
	within(t, patience, "the simulated nodes are there", func() bool {
		for _, n := range read[[]struct{ Node string }](d.client, "node", "list") {
			if strings.HasPrefix(n.Node, "hollow-") {
				zones[n.Node] = map[bool]string{true: "a", false: "b"}[n.Node < "hollow-00002"]
			}
		}
		return len(zones) == 4
	})
	for node, zone := range zones {
		d.ohm("node", "label", node, "zone="+zone)
	}
	raw, err := os.ReadFile("../examples/jobs/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := strings.Replace(string(raw), "    constraints:\n", "    constraints:\n      - {key: hollow, exists: true}\n", 1)
	file = strings.Replace(file, "    affinity:\n", "    constraints: [{key: hollow, exists: true}]\n    affinity:\n", 1)
	d.ohm("run", d.job(file), "--wait", "--timeout", patience.String())
	nodes, replicas := map[string]bool{}, map[string]int{}
	tasks := read[[]struct{ Task, Node, State string }](d.client, "task", "list", "store")
	for _, v := range tasks {
		if strings.HasPrefix(v.Task, "store/replica/") {
			nodes[v.Node] = true
			replicas[zones[v.Node]]++
		}
	}
	if len(tasks) != 5 || len(nodes) != 3 || replicas["a"]+replicas["b"] != 3 || replicas["a"] == 0 || replicas["b"] == 0 {
		t.Errorf("replicas on %v, by zone %v of %v", nodes, replicas, tasks)
	}
	for _, v := range tasks {
		if strings.HasPrefix(v.Task, "store/cache/") && replicas[zones[v.Node]] == 0 {
			t.Errorf("%s is on %s, without a replica in its zone", v.Task, v.Node)
		}
	}
	if got := d.ohm("job", "get", "store"); !strings.Contains(got, "to jobs with noisy=yes within node") {
		t.Errorf("the job: %s", got)
	}
	d.ohm("run", d.job("job: loud\nkind: batch\nlabels: {noisy: \"yes\"}\ngroups:\n- {name: main, count: 9, cpu: 50m, memory: 8Mi, command: [sleep, \"1000000\"], constraints: [{key: hollow, exists: true}], antiAffinity: [{within: node}]}\n"))
	within(t, patience, "a rule of the store keeps loud tasks off its nodes", func() bool {
		s := d.ohm("explain", "loud")
		return strings.Contains(s, "antiAffinity to jobs with noisy=yes within node")
	})
}
