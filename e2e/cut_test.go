package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Field case 56: three of nine nodes are cut off, their tasks are replaced, and the server is
// killed as they come back. The count is right, what stands in the store survives, and every
// old process ends.
func TestCase56(t *testing.T) {
	t.Parallel()
	dir, notes, address := shortDir(t), shortDir(t), freeAddress(t)
	serve := func() *process {
		args := []string{"server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "server"), "--address", address}
		p := start(t, "ohm", append(args, quick...)...)
		p.word("ready")
		return p
	}
	server := serve()
	c := client{t, address}
	start(t, "ohm", "scheduler", "--policy", "service", "--etcd", server.word("etcd"))
	cable := startRelay(t, address)
	var homes []string
	for i := range 9 {
		node := fmt.Sprint("n", i)
		home := filepath.Join(dir, node)
		homes = append(homes, home)
		t.Cleanup(func() { endTasks(t, home) })
		at := address
		if i < 3 {
			at = cable.address
		}
		start(t, "ohm", "agent", "--address", at, "--data-dir", home, "--node", node, soon)
	}
	within(t, patience, "nine nodes are there", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 9 })
	c.run(service("svc", 9, notes))
	first := c.tasks("svc")
	var stranded []int // processes on the nodes that are cut off
	moved := map[string]bool{}
	for name, v := range first {
		if v.Node <= "n2" {
			stranded = append(stranded, v.Pid)
			moved[name] = true
		}
	}
	if len(moved) != 3 {
		t.Fatalf("%d tasks are on the three nodes: %v", len(moved), first)
	}
	cable.set(true)
	within(t, patience, "the three are replaced", func() bool {
		n := 0
		for name, v := range c.tasks("svc") {
			if moved[name] && v.State == "Running" && v.Attempt == 2 && v.Node > "n2" {
				n++
			}
		}
		return n == 3
	})
	for _, pid := range stranded {
		if _, runs := stat(pid); !runs {
			t.Error("a task that is only cut off has ended")
		}
	}
	second := c.processesOf(t, "svc")
	server.kill()
	cable.set(false)
	serve()
	within(t, patience, "the old processes end", func() bool {
		return !slices.ContainsFunc(stranded, func(pid int) bool { _, runs := stat(pid); return runs })
	})
	within(t, patience, "all nodes are back", func() bool { return strings.Count(c.ohm("node", "list"), "Ready") == 9 })
	throughout(t, outage, "what stands in the store survives", func() bool {
		now := c.processesOf(t, "svc")
		for name, was := range second {
			if now[name] != was {
				t.Logf("%s was %s, now it is %s", name, was, now[name])
				return false
			}
		}
		return len(now) == 9
	})
	for i := range 9 {
		want := 1
		if moved[fmt.Sprintf("svc/main/%d", i)] {
			want = 2
		}
		if n := starts(t, notes, "svc", i); n != want {
			t.Errorf("task %d was started %d times, want %d", i, n, want)
		}
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	for _, home := range homes {
		nothingLeft(t, home)
	}
	c.ohm("audit")
}
