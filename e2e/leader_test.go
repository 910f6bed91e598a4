package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Field case 68: the leadership of the housekeeping moves five times, each time because its
// leader stands still, which then goes on and does not know it yet; so do schedulers. A job that
// runs once runs once.
func TestCase68(t *testing.T) {
	t.Parallel()
	dir, notes, etcd := shortDir(t), shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), etcd)
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd}, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	servers, at := map[string]*process{}, map[string]string{}
	for i := range 3 {
		name := fmt.Sprint("s", i)
		servers[name] = start(t, "ohm", append([]string{"server", "--etcd", etcd, "--address", "127.0.0.1:0", "--name", name}, quick...)...)
		at[name] = servers[name].word("ready")
	}
	var schedulers []*process
	for range 2 {
		schedulers = append(schedulers, start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", etcd))
	}
	t.Cleanup(func() { endTasks(t, dir) })
	start(t, "ohm", "agent", "--address", at["s0"], "--data-dir", dir, "--node", "here")
	leader := func() string {
		resp, err := store.Get(t.Context(), "/ohm/default/meta/leader/keeper")
		if err != nil {
			t.Fatal(err)
		}
		var m ohmv1.Meta
		if len(resp.Kvs) == 1 {
			if err := proto.Unmarshal(resp.Kvs[0].Value, &m); err != nil {
				t.Fatal(err)
			}
		}
		return m.GetValue()
	}
	once := func(name string) string {
		return fmt.Sprintf(`
job: %s
kind: batch
whenSilent: {then: never, after: 10m}
groups:
  - {name: main, count: 3, cpu: 10m, memory: 16Mi, command: [sh, -c, "echo started >> %s/$OHM_JOB-$OHM_INDEX; sleep 0.5"]}
`, name, notes)
	}
	c := client{t, at["s0"]}
	within(t, patience, "the node is there, and a leader", func() bool { return strings.Contains(c.ohm("node", "list"), "Ready") && leader() != "" })
	var jobs []string
	for i := range 5 {
		old := leader()
		paused := []*process{servers[old], schedulers[i%2]}
		for _, p := range paused {
			p.pause()
		}
		within(t, patience, "another leads", func() bool { now := leader(); return now != "" && now != old })
		name := fmt.Sprint("once-", i)
		jobs = append(jobs, name)
		c = client{t, at[leader()]}
		c.ohm("run", c.job(once(name)))
		for _, p := range paused {
			p.resume()
		}
	}
	last := "after-all"
	jobs = append(jobs, last)
	c.ohm("run", c.job(once(last)))
	for _, job := range jobs {
		within(t, patience, job+" succeeds", func() bool { return c.status(job).State == "Succeeded" })
	}
	for _, p := range append(schedulers, servers["s0"], servers["s1"], servers["s2"]) {
		if !p.running() {
			t.Errorf("%s ended: %v", p.name, p.outcome)
		}
	}
	throughout(t, outage/2, "nothing runs again", func() bool {
		for _, job := range jobs {
			for i := range 3 {
				if n := starts(t, notes, job, i); n != 1 {
					t.Logf("task %d of %s was started %d times", i, job, n)
					return false
				}
			}
		}
		return true
	})
	for _, job := range jobs {
		for name, v := range c.tasks(job) {
			if v.Attempt != 1 {
				t.Errorf("%s is at attempt %d", name, v.Attempt)
			}
		}
	}
	nothingLeft(t, dir)
	c.ohm("audit")
}
