package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Field case 62: an agent asks first. While it was away its task went elsewhere, or ended: it
// starts neither, with the server there or not.
func TestCase62(t *testing.T) {
	t.Parallel()
	dir, notes, address := shortDir(t), shortDir(t), freeAddress(t)
	serve := func() *process {
		args := []string{"server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "server"), "--address", address}
		p := start(t, "ohm", append(slices.Concat(args, quick), grace)...)
		p.word("ready")
		return p
	}
	server := serve()
	c := client{t, address}
	start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", server.word("etcd"))
	home := func(node string) string { return filepath.Join(dir, node) }
	agent := func(node string) *process {
		return start(t, "ohm", "agent", "--address", address, "--data-dir", home(node), "--node", node, soon)
	}
	for _, node := range []string{"one", "two"} {
		t.Cleanup(func() { endTasks(t, home(node)) })
	}
	one := agent("one")
	job := func(name, script string) {
		t.Helper()
		c.ohm("run", c.job(fmt.Sprintf(`
job: %s
kind: batch
groups:
  - {name: main, cpu: 10m, memory: 16Mi, command: [sh, -c, 'echo "started $OHM_NODE" >> %s/$OHM_JOB-0; %s']}
`, name, notes, script)))
		within(t, patience, name+" runs", func() bool { return c.tasks(name)[name+"/main/0"].State == "Running" })
	}
	on := func(job, node string) int {
		return strings.Count(contents(filepath.Join(notes, job+"-0")), "started "+node+"\n")
	}

	job("moves", "sleep 1000")
	one.kill()
	endTasks(t, home("one"))
	agent("two")
	within(t, patience, "the task has moved", func() bool {
		v := c.tasks("moves")["moves/main/0"]
		return v.State == "Running" && v.Node == "two" && v.Attempt == 2
	})
	one = agent("one")
	within(t, patience, "both agents are there", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 2 })
	throughout(t, outage/2, "nothing old is started", func() bool { return on("moves", "one") == 1 && on("moves", "two") == 1 })
	c.ohm("stop", "moves", "--wait", "--timeout", patience.String())

	// A task ends while no server can be reached, its agent starts again, and again: what has
	// ended has ended.
	c.ohm("node", "drain", "two")
	job("ends", fmt.Sprintf("until [ -e %s/go ]; do sleep 0.1; done", notes))
	pid := c.tasks("ends")["ends/main/0"].Pid
	server.kill()
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the task ends", func() bool { _, runs := stat(pid); return !runs })
	one.kill()
	one = agent("one")
	throughout(t, outage/2, "without a server nothing is started", func() bool { return on("ends", "one") == 1 })
	one.kill()
	agent("one")
	throughout(t, outage/2, "nor by the next agent", func() bool { return on("ends", "one") == 1 })
	serve()
	within(t, patience, "the end is told", func() bool {
		a := c.try("status", "ends", "-o", "json")
		return a.code == 0 && decode[jobView](t, a.stdout).State == "Succeeded"
	})
	if v := c.tasks("ends")["ends/main/0"]; v.Attempt != 1 || v.Cause != "exited 0" || on("ends", "one")+on("ends", "two") != 1 {
		t.Errorf("attempt %d, %s; started %d times", v.Attempt, v.Cause, on("ends", "one")+on("ends", "two"))
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, home("one"))
	nothingLeft(t, home("two"))
	c.ohm("audit")
}
