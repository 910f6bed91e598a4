package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// quick are a server's times, shortened as all others are: what counts is how long an outage
// is against the times after which something is given up. Two minutes are three times the
// 40 seconds that a node may be silent; here six seconds are, of two.
var quick = []string{"--silent-after", "2s", "--lost-after", "2s", "--lost-grace", "2s", "--lease", "2s"}

// outage is three times the silence after which tasks are given up.
const outage = 6 * time.Second

// Where all servers were away, agents must be back well within the grace of a new leader, as
// they are by default: here within half a second of four.
const (
	soon      = "--reconnect=200ms"
	grace     = "--lost-grace=4s"
	longGrace = 8 * time.Second // when a leader has begun to judge
)

// processesOf are the identities of a job's tasks, by task.
func (c client) processesOf(t *testing.T, job string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, v := range c.tasks(job) {
		found[name] = fmt.Sprintf("attempt %d, process %s", v.Attempt, alive(t, v.Pid))
	}
	return found
}

// Field case 54, the first half: the leader of three etcds dies; then every server and every
// scheduler, for three times as long as a node may be silent. No task notices.
func TestCase54(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	members := startEtcds(t, dir)
	var endpoints []string
	for address := range members {
		endpoints = append(endpoints, address)
	}
	etcds := strings.Join(endpoints, ",")
	addresses := []string{freeAddress(t), freeAddress(t)}
	serve := func() (parts []*process) {
		for i, address := range addresses {
			args := []string{"server", "--etcd", etcds, "--address", address, "--data-dir", filepath.Join(dir, fmt.Sprint("server", i))}
			parts = append(parts, start(t, "ohm", append(slices.Concat(args, quick), grace)...))
		}
		for _, p := range parts {
			p.word("ready")
		}
		return append(parts, start(t, "ohm", "scheduler", "--policy", "batch,service", "--etcd", etcds, "--data-dir", filepath.Join(dir, "scheduler")))
	}
	parts := serve()
	c := client{t, addresses[0]}
	for i, address := range addresses {
		home := filepath.Join(dir, fmt.Sprint("node", i))
		t.Cleanup(func() { endTasks(t, home) })
		start(t, "ohm", "agent", "--address", address, "--data-dir", home, "--node", fmt.Sprint("node", i), soon)
	}
	c.run(service("svc", 4, notes))
	c.ohm("run", c.job(fmt.Sprintf(`
job: work
kind: batch
groups:
  - {name: main, cpu: 10m, memory: 16Mi, command: [sh, -c, "echo started >> %[1]s/work-0; until [ -e %[1]s/go ]; do sleep 0.2; done"]}
`, notes)))
	within(t, patience, "the batch task runs", func() bool { return c.tasks("work")["work/main/0"].State == "Running" })
	before := map[string]map[string]string{"svc": c.processesOf(t, "svc"), "work": c.processesOf(t, "work")}
	unharmed := func() bool {
		for job, tasks := range before {
			for name, was := range tasks {
				if now := c.processesOf(t, job)[name]; now != was {
					t.Errorf("%s was %s, now it is %s", name, was, now)
				}
			}
		}
		return !t.Failed()
	}

	store, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: patience, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	leader := ""
	for address := range members {
		s, err := store.Status(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		if s.Leader == s.Header.MemberId {
			leader = address
		}
	}
	members[leader].kill()
	within(t, patience, "the cell takes jobs without etcd's leader", func() bool { return c.try("run", c.job(batch("after-leader", 1))).code == 0 })
	within(t, patience, "and runs them", func() bool { return c.status("after-leader").State == "Succeeded" })
	unharmed()

	for _, p := range parts {
		p.kill()
	}
	pids := map[string]string{} // nobody is there to be asked
	for _, tasks := range before {
		for name, was := range tasks {
			pids[name] = was
		}
	}
	throughout(t, outage, "every task's process is there", func() bool {
		for _, was := range pids {
			var attempt, pid int
			if _, err := fmt.Sscanf(was, "attempt %d, process %d", &attempt, &pid); err != nil {
				t.Fatal(err)
			}
			if _, runs := stat(pid); !runs {
				return false
			}
		}
		return true
	})
	serve()
	within(t, patience, "the nodes are back", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 2 })
	within(t, patience, "the cell works", func() bool { return c.try("run", c.job(batch("after-all", 1))).code == 0 })
	within(t, patience, "the new job succeeds", func() bool { return c.status("after-all").State == "Succeeded" })
	throughout(t, longGrace, "nothing is given up afterwards", unharmed)
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the batch job succeeds", func() bool { return c.status("work").State == "Succeeded" })
	for job, count := range map[string]int{"svc": 4, "work": 1} {
		for i := range count {
			if n := starts(t, notes, job, i); n != 1 {
				t.Errorf("task %d of %s was started %d times", i, job, n)
			}
		}
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	for i := range addresses {
		nothingLeft(t, filepath.Join(dir, fmt.Sprint("node", i)))
	}
	c.ohm("audit")
}
