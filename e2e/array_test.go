package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// mostLive is how many placements of a job were live at once, at any revision of the store, and
// how many there were in all.
func mostLive(t *testing.T, etcd *clientv3.Client, job string) (most, all int) {
	t.Helper()
	now, err := etcd.Get(t.Context(), "/ohm/default/meta/format")
	if err != nil {
		t.Fatal(err)
	}
	live := map[string]bool{}
	events := etcd.Watch(t.Context(), "/ohm/default/tasks/default/"+job+"/", clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithProgressNotify())
	for {
		if err := etcd.RequestProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		resp := <-events
		if err := resp.Err(); err != nil {
			t.Fatal(err)
		}
		for i, e := range resp.Events {
			key := string(e.Kv.Key)
			if !strings.HasSuffix(key, "/placement") {
				continue
			}
			if e.IsCreate() {
				live[key], all = true, all+1
			} else if e.Type == clientv3.EventTypeDelete {
				delete(live, key)
			}
			if last := i+1 == len(resp.Events) || resp.Events[i+1].Kv.ModRevision != e.Kv.ModRevision; last {
				most = max(most, len(live))
			}
		}
		if resp.Header.Revision >= now.Header.Revision && (resp.IsProgressNotify() || len(resp.Events) > 0) {
			return most, all
		}
	}
}

// Field case 86: of an array never more than two elements are live, with two instances of its
// scheduler of which one is killed on the way; and with as many failures as it allows it has
// succeeded.
func TestCase86(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	endpoint, address := freeAddress(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), endpoint)
	start(t, "ohm", "server", "--etcd", endpoint, "--address", address, "--data-dir", filepath.Join(dir, "server")).word("ready")
	var instances []*process
	for _, name := range []string{"one", "two"} {
		instances = append(instances, start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", endpoint, "--data-dir", filepath.Join(dir, name)))
	}
	home := filepath.Join(dir, "node")
	t.Cleanup(func() { endTasks(t, home) })
	start(t, "ohm", "agent", "--address", address, "--data-dir", home, "--node", "a")
	c := client{t, address}
	c.ohm("run", c.job(`
job: array
kind: batch
maxParallel: 2
allowedFailures: 3
groups:
  - {name: main, count: 40, cpu: 10m, memory: 4Mi, command: [sh, -c, "test $OHM_INDEX -ge 3"]}
`))
	type view struct {
		State, Message string
		Groups         []struct{ Succeeded, Failed, Waiting int }
	}
	status := func() view { return read[view](c, "status", "array") }
	within(t, patience, "some have run", func() bool { g := status().Groups; return len(g) == 1 && g[0].Succeeded >= 5 })
	if s := status(); s.State == "Running" && s.Groups[0].Waiting > 0 && !strings.Contains(s.Message, "maxParallel is 2") && !strings.Contains(s.Message, "waiting for scheduler") {
		t.Errorf("status says %q", s.Message)
	}
	instances[0].kill()
	within(t, patience, "all have run", func() bool { return status().State == "Succeeded" })
	if s := status(); s.Groups[0].Failed != 3 || s.Groups[0].Succeeded != 37 || s.Message != "3 of 40 tasks failed, which allowedFailures allows" {
		t.Errorf("it ended so: %+v", s)
	}
	if most, all := mostLive(t, c.store(), "array"); most != 2 || all != 40 {
		t.Errorf("at most %d of %d placements were live at once, want 2 of 40", most, all)
	}
	c.ohm("audit")
}
