package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// gangOf is a job file: a gang of count simulated tasks.
func gangOf(name string, count int, memory string) string {
	return fmt.Sprintf(`
job: %s
kind: ml
groups:
  - name: main
    count: %d
    cpu: 2
    memory: %s
    command: [simulated]
    constraints:
      - {key: hollow, exists: true}
`, name, count, memory)
}

// Gangs of more tasks than etcd takes operations in a request (128, as it comes) commit as
// one, over no more nodes than it takes conditions; and where no choice of nodes would do,
// that is said at submit, with the numbers.
func TestCase94(t *testing.T) {
	t.Parallel()
	dir, address := shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), address)
	c := client{t, start(t, "ohm", "server", "--etcd", address, "--address", "127.0.0.1:0").word("ready")}
	start(t, "ohm", "scheduler", "--policy", "ml", "--address", c.address)
	// Thin nodes take one task each and are the better fit for it; thick ones take eight.
	nodes := "sn,cpu_milli,memory_mib,gpu,model\n"
	for i := range 130 {
		nodes += fmt.Sprintf("thin-%03d,2000,131072,0,\n", i)
	}
	for i := range 70 {
		nodes += fmt.Sprintf("thick-%03d,16000,32768,0,\n", i)
	}
	write(t, filepath.Join(dir, "nodes.csv"), nodes)
	start(t, "ohm", "agent", "--address", c.address, "--hollow-nodes", filepath.Join(dir, "nodes.csv"))
	within(t, patience, "all nodes are ready", func() bool {
		return strings.Count(c.ohm("node", "list", "-o", "json"), `"Ready"`) == 200
	})
	etcd := c.store()

	for _, n := range []int{127, 128, 129, 500} {
		name := fmt.Sprintf("g%d", n)
		for version := 1; version <= 2; version++ { // the slots of the second lie between those of the first
			c.ohm("run", c.job(gangOf(name, n, "1Gi")))
			within(t, patience, name+" runs", func() bool { return c.status(name).State == "Running" && len(c.tasks(name)) == n })
			got, err := etcd.Get(t.Context(), "/ohm/default/tasks/default/"+name+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
			if err != nil {
				t.Fatal(err)
			}
			placed, at := 0, map[int64]bool{}
			for _, kv := range got.Kvs {
				if strings.HasSuffix(string(kv.Key), fmt.Sprintf("@%d/placement", version)) {
					placed++
					at[kv.ModRevision] = true
				}
			}
			on := map[string]bool{}
			for _, task := range c.tasks(name) {
				on[task.Node] = true
			}
			if placed != n || len(at) != 1 || len(on) > 111 {
				t.Errorf("%s version %d: %d placements at %d revisions on %d nodes", name, version, placed, len(at), len(on))
			}
			c.ohm("stop", name, "--wait", "--timeout", patience.String())
		}
	}
	for _, n := range []int{127, 128, 129} {
		a := c.try("run", c.job(gangOf("wide", n, "100Gi"))) // one on a thin node, none on a thick one
		if a.code != 2 || !strings.Contains(a.stderr, fmt.Sprintf("%d tasks", n)) || !strings.Contains(a.stderr, "at most 111 nodes") || !strings.Contains(a.stderr, "--max-txn-ops") {
			t.Errorf("a gang of %d on as many nodes: exit code %d, %s", n, a.code, a.stderr)
		}
	}
	if a := c.try("run", c.job(gangOf("huge", 800, "1Gi"))); a.code != 2 || !strings.Contains(a.stderr, "800 tasks") || !strings.Contains(a.stderr, "at most 767") {
		t.Errorf("a gang of 800: exit code %d, %s", a.code, a.stderr)
	}
	c.ohm("audit")
}
