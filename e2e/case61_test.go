package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// Field case 61: an agent is killed, the job of its ten tasks is stopped while no agent is
// there, and the next agent ends them all.
func TestCase61StoppedMeanwhile(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	server := start(t, "ohm", "server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "server"), "--address", "127.0.0.1:0")
	etcd := server.word("etcd")
	c := client{t, server.word("ready")}
	start(t, "ohm", "scheduler", "--policy", "service", "--etcd", etcd)
	home := filepath.Join(dir, "node")
	t.Cleanup(func() { endTasks(t, home) })
	agent := func() *process {
		return start(t, "ohm", "agent", "--address", c.address, "--data-dir", home, "--node", "here", soon)
	}
	first := agent()
	within(t, patience, "the node is there", func() bool { return strings.Contains(c.ohm("node", "list"), "Ready") })
	c.run(service("ten", 10, notes))
	var running []int
	for _, v := range c.tasks("ten") {
		alive(t, v.Pid)
		running = append(running, v.Pid)
	}
	if len(running) != 10 {
		t.Fatalf("%d tasks run", len(running))
	}
	first.kill()
	c.ohm("stop", "ten")
	for _, pid := range running {
		if _, runs := stat(pid); !runs {
			t.Errorf("process %d ended without an agent", pid)
		}
	}
	agent()
	within(t, patience, "all are stopped", func() bool {
		for _, v := range c.tasks("ten") {
			if v.State != "Stopped" || v.Attempt != 1 {
				return false
			}
		}
		return true
	})
	nothingLeft(t, home, running...)
	c.ohm("audit")
}
