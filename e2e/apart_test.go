package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// batch is a job file: count tasks that end at once.
func batch(name string, count int) string {
	return fmt.Sprintf(`
job: %s
kind: batch
groups:
  - name: main
    count: %d
    cpu: 10m
    memory: 16Mi
    command: [sh, -c, "echo $OHM_TASK"]
`, name, count)
}

// The parts of a cell as processes of their own: two schedulers of one policy share the
// jobs, and one takes over from the other; a server and an agent come back, and no task
// notices.
func TestProcessesApart(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	store := filepath.Join(dir, "s")
	serve := func(address string) *process {
		p := start(t, "ohm", "server", "--embedded-etcd", "--data-dir", store, "--address", address)
		p.word("etcd")
		p.word("ready")
		return p
	}
	server := serve(freeAddress(t))
	c := client{t, server.word("ready")}
	scheduler := func(policy, instance string) *process {
		return start(t, "ohm", "scheduler", "--policy", policy, "--instance", instance, "--address", c.address)
	}
	one := scheduler("batch", "one")
	scheduler("batch", "two")
	scheduler("service", "three")
	t.Cleanup(func() { endTasks(t, dir) })
	serveNode := func() *process {
		return start(t, "ohm", "agent", "--address", c.address, "--data-dir", dir, "--node", "here")
	}
	agent := serveNode()
	instances := func(scheduler string) []string {
		for _, s := range read[[]struct {
			Scheduler string
			Instances []string
		}](c, "scheduler", "list") {
			if s.Scheduler == scheduler {
				return s.Instances
			}
		}
		return nil
	}
	within(t, patience, "both instances are listed", func() bool {
		return slices.Equal(instances("batch"), []string{"one", "two"}) && slices.Equal(instances("service"), []string{"three"})
	})

	c.run(service("svc", 1, notes))
	was := alive(t, c.tasks("svc")["svc/main/0"].Pid)
	c.run(batch("twenty", 20))
	if n := len(c.tasks("twenty")); n != 20 {
		t.Errorf("%d tasks", n)
	}

	// Which instance has which job is a matter of their names alone.
	share := func(prefix string) (by map[string]int) {
		by = map[string]int{}
		var files []string
		for i := range 12 {
			files = append(files, c.job(batch(fmt.Sprintf("%s%d", prefix, i), 1)))
		}
		c.ohm(append([]string{"run", "--wait", "--timeout", patience.String()}, files...)...)
		for i := range 12 {
			name := fmt.Sprintf("%s%d", prefix, i)
			by[read[struct{ Instance string }](c, "txn", "get", c.tasks(name)[name+"/main/0"].Transaction).Instance]++
		}
		return by
	}
	if by := share("a"); by["one"] == 0 || by["two"] == 0 || by["one"]+by["two"] != 12 {
		t.Errorf("the jobs were not shared: %v", by)
	}
	one.kill()
	if by := share("a"); by["two"] == 0 || by["one"]+by["two"] != 12 {
		t.Errorf("after the end of one: %v", by)
	}
	within(t, patience, "the dead instance is gone from the list", func() bool { return slices.Equal(instances("batch"), []string{"two"}) })

	if code := server.terminate(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	serve(c.address)
	c.run(batch("after", 3)) // agent and scheduler are back
	agent.kill()
	serveNode()
	c.run(batch("afterwards", 3))
	v := c.tasks("svc")["svc/main/0"]
	if got := alive(t, v.Pid); got != was || v.Attempt != 1 || starts(t, notes, "svc", 0) != 1 {
		t.Errorf("the task was %s, now it is %s, attempt %d, started %d times", was, got, v.Attempt, starts(t, notes, "svc", 0))
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir, v.Pid)
	c.ohm("audit")
}
