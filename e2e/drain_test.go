package e2e

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// throughout polls for a while and fails as soon as ok does not hold.
func throughout(t *testing.T, d time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if !ok() {
			t.Fatalf("no longer so: %s", what)
		}
		select {
		case <-tick.C:
		case <-end.C:
			return
		}
	}
}

// drainStep is what a dry run says of a task.
type drainStep struct{ Task, Action, Next, Detail string }

// Field case 52: a drain of the only node. The dry run says what will happen, and it happens:
// the task may go on until the deadline, then it waits with all its retries, and runs again
// once the node takes tasks.
func TestCase52(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDev(t, dir)
	d.ohm("run", d.job(fmt.Sprintf(`
job: work
kind: batch
retries: 1
groups:
  - name: main
    cpu: 10m
    memory: 16Mi
    command:
      - sh
      - -c
      - |
        echo started >> %[1]s/work-0
        case $OHM_ATTEMPT in
        1) sleep 1000 & wait $! ;;
        2) exit 7 ;;
        esac
`, notes)))
	task := func() taskView { return d.tasks("work")["work/main/0"] }
	within(t, patience, "the task runs", func() bool { return task().State == "Running" })
	pid := task().Pid
	was := alive(t, pid)
	steps := read[[]drainStep](d.client, "node", "drain", "here", "--deadline", "4s", "--dry-run")
	if len(steps) != 1 || steps[0].Task != "work/main/0" || steps[0].Action != "Wait" || steps[0].Next != "Pending" {
		t.Errorf("the dry run says %v", steps)
	}
	if state := read[struct{ State string }](d.client, "node", "get", "here").State; state != "Ready" {
		t.Errorf("after the dry run the node is %s", state)
	}
	began := time.Now()
	d.ohm("node", "drain", "here", "--deadline", "4s")
	if v := task(); time.Since(began) < 3*time.Second && (v.State != "Running" || alive(t, v.Pid) != was) {
		t.Errorf("before the deadline the task is %s", v.State)
	}
	within(t, patience, "the task waits", func() bool { return task().State == "Pending" })
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("it was stopped after %v, before the deadline", took)
	}
	if v := task(); v.Attempt != 1 || v.Cause != "Drained" {
		t.Errorf("it waits after attempt %d, %s", v.Attempt, v.Cause)
	}
	if _, runs := stat(pid); runs {
		t.Error("its process is still there")
	}
	throughout(t, 2*time.Second, "the job waits", func() bool { return d.status("work").State == "Pending" })
	d.ohm("node", "resume", "here")
	// Attempt 2 fails by itself, which takes the one retry; had the drain spent it, the job had failed.
	within(t, patience, "the job succeeds", func() bool { return d.status("work").State == "Succeeded" })
	if v := task(); v.Attempt != 3 || starts(t, notes, "work", 0) != 3 {
		t.Errorf("it succeeded in attempt %d after %d starts", v.Attempt, starts(t, notes, "work", 0))
	}
	nothingLeft(t, dir)
}

// Field case 59: tasks that take their time to end are drained. With replace: afterExit, the
// default of batch jobs, there is never one beside its successor; with atOnce, the default of
// services, there is for a moment.
func TestCase59(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	server := start(t, "ohm", "server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "server"), "--address", "127.0.0.1:0")
	etcd := server.word("etcd")
	c := client{t, server.word("ready")}
	start(t, "ohm", "scheduler", "--policy", "batch,service", "--etcd", etcd)
	for _, node := range []string{"one", "two"} {
		home := filepath.Join(dir, node)
		t.Cleanup(func() { endTasks(t, home) })
	}
	start(t, "ohm", "agent", "--address", c.address, "--data-dir", filepath.Join(dir, "one"), "--node", "one")
	jobs := map[string]struct {
		kind, stop string
		overlap    bool
	}{
		"batch":         {"batch", "", false},
		"batch-at-once": {"batch", ", replace: atOnce", true},
		"service":       {"service", "", true},
		"service-exit":  {"service", ", replace: afterExit", false},
	}
	for name, j := range jobs {
		c.ohm("run", c.job(fmt.Sprintf(`
job: %[1]s
kind: %[2]s
stop: {grace: 1m%[3]s}
groups:
  - name: main
    cpu: 10m
    memory: 16Mi
    command:
      - sh
      - -c
      - |
        trap 'sleep 4; echo "ended $(date +%%s%%N)" >> %[4]s/%[1]s; exit 0' TERM
        echo "started $(date +%%s%%N)" >> %[4]s/%[1]s
        while :; do sleep 1 & wait $!; done
`, name, j.kind, j.stop, notes)))
	}
	for name := range jobs {
		within(t, patience, name+" runs", func() bool { return strings.Contains(contents(filepath.Join(notes, name)), "started") })
	}
	start(t, "ohm", "agent", "--address", c.address, "--data-dir", filepath.Join(dir, "two"), "--node", "two")
	within(t, patience, "both nodes are ready", func() bool {
		return strings.Count(c.ohm("node", "list"), "Ready") == 2
	})
	c.ohm("node", "drain", "one")
	for name, j := range jobs {
		var ended, again int64
		within(t, patience, name+" has moved", func() bool {
			var started []int64
			ended = 0
			for line := range strings.Lines(contents(filepath.Join(notes, name))) {
				what, at, _ := strings.Cut(strings.TrimSpace(line), " ")
				n, err := strconv.ParseInt(at, 10, 64)
				switch {
				case err != nil || !strings.HasSuffix(line, "\n"):
				case what == "ended":
					ended = n
				default:
					started = append(started, n)
				}
			}
			if len(started) == 2 {
				again = started[1]
			}
			return ended > 0 && again > 0
		})
		if overlap := time.Duration(ended - again); (overlap > 0) != j.overlap {
			t.Errorf("%s: the old one ended %v after the new one had started", name, overlap)
		}
		if v := c.tasks(name)[name+"/main/0"]; v.Node != "two" || v.Attempt != 2 {
			t.Errorf("%s is on node %s, attempt %d", name, v.Node, v.Attempt)
		}
	}
	within(t, patience, "the node is empty", func() bool { return len(left(t, filepath.Join(dir, "one"))) == 0 })
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, filepath.Join(dir, "two"))
	c.ohm("audit")
}
