package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Field case 13: a task that needs more than half of the node ignores SIGTERM; it is
// stopped, and another of the same size is submitted. The other does not start before the
// first is gone, whatever the store says, loses no attempt over it, and then runs.
func TestCase13(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDevAt(t, dir, "127.0.0.1:0")
	node := read[struct{ Capacity struct{ CPUMilli int } }](d.client, "node", "get", "here")
	if node.Capacity.CPUMilli < 500 {
		t.Fatalf("the node has %+v", node)
	}
	job := func(name, command string) string {
		return d.job(fmt.Sprintf(`
job: %s
kind: service
stop: {grace: 3s}
groups:
  - name: main
    cpu: %dm
    memory: 16Mi
    command: [sh, -c, "%s"]
`, name, node.Capacity.CPUMilli*2/3, command))
	}
	d.ohm("run", "--wait", "--timeout", patience.String(), job("stubborn", fmt.Sprintf("trap '' TERM; echo up > %s/stubborn; while :; do sleep 0.2; done", notes)))
	pid := d.tasks("stubborn")["stubborn/main/0"].Pid
	was, ok := stat(pid)
	if !ok {
		t.Fatalf("there is no process %d", pid)
	}
	within(t, patience, "it does not heed SIGTERM", func() bool { return contents(filepath.Join(notes, "stubborn")) != "" })
	began := time.Now()
	d.ohm("stop", "stubborn")
	d.ohm("run", job("next", fmt.Sprintf("echo up > %s/next; while :; do sleep 0.2; done", notes)))
	within(t, patience, "the next one runs", func() bool {
		_, err := os.Stat(filepath.Join(notes, "next"))
		if is, ok := stat(pid); err == nil && ok && is.start == was.start {
			t.Fatal("both are alive at the same time")
		}
		return err == nil
	})
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("the first was gone after %v: it did not ignore SIGTERM", took)
	}
	within(t, patience, "the store says so", func() bool { return d.tasks("next")["next/main/0"].State == "Running" })
	if v := d.tasks("next")["next/main/0"]; v.Attempt != 1 {
		t.Errorf("the next one is at attempt %d", v.Attempt)
	}
	d.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir)
	d.ohm("audit")
}
