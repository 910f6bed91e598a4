package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// kill -9 of a whole cell with tasks running, then a new start on the same data dir:
// the same processes go on, nothing is started twice, and after a stop nothing is left.
func TestKillDevAndRestart(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDevAt(t, dir, freeAddress(t))
	d.run(service("svc", 2, notes))
	d.ohm("run", d.job(fmt.Sprintf(`
job: work
kind: batch
retries: 3
groups:
  - name: main
    cpu: 10m
    memory: 16Mi
    command: [sh, -c, "echo started >> %[1]s/work-0; until [ -e %[1]s/go ]; do sleep 0.2; done; echo done"]
`, notes)))
	within(t, patience, "the batch task runs", func() bool { return d.tasks("work")["work/main/0"].State == "Running" })
	before := map[string]string{}
	var running []int
	for _, job := range []string{"svc", "work"} {
		for name, v := range d.tasks(job) {
			before[name] = alive(t, v.Pid)
			running = append(running, v.Pid)
		}
	}
	standing := strings.Join(left(t, dir), "\n")
	for _, kind := range []string{"process ", "folder ", "cgroup "} {
		if !strings.Contains(standing, kind) && (kind != "cgroup " || strings.Contains(d.ohm("node", "get", "here"), "cgroup-")) {
			t.Errorf("this test does not see what it is about, a %sof a task:\n%s", kind, standing)
		}
	}
	d.kill()

	d = d.again()
	// Nobody waits for the leases of the dead cell, which live for ten seconds.
	again := time.Now()
	d.run(batch("prompt", 1))
	store := d.store()
	within(t, patience, "the keeper has recorded the job's end", func() bool {
		var record ohmv1.Job
		resp, err := store.Get(t.Context(), "/ohm/default/jobs/default/prompt")
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("the job's record: %v, %v", resp, err)
		}
		if err := proto.Unmarshal(resp.Kvs[0].Value, &record); err != nil {
			t.Fatal(err)
		}
		return record.GetDone().GetState() == "Succeeded"
	})
	if took := time.Since(again); took > 8*time.Second {
		t.Errorf("the first job after the restart took %v", took)
	}
	for _, job := range []string{"svc", "work"} {
		for name, v := range d.tasks(job) {
			if got := alive(t, v.Pid); got != before[name] || v.Attempt != 1 || v.State != "Running" {
				t.Errorf("%s was process %s, now it is %s, attempt %d, %s", name, before[name], got, v.Attempt, v.State)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "the batch job succeeds", func() bool { return d.status("work").State == "Succeeded" })
	if v := d.tasks("work")["work/main/0"]; v.Attempt != 1 || v.Cause != "exited 0" {
		t.Errorf("the batch task ended with attempt %d, %s", v.Attempt, v.Cause)
	}
	if got := d.ohm("logs", "work"); got != "done\n" {
		t.Errorf("its output is %q", got)
	}
	for job, count := range map[string]int{"svc": 2, "work": 1} {
		for i := range count {
			if n := starts(t, notes, job, i); n != 1 {
				t.Errorf("task %d of %s was started %d times", i, job, n)
			}
		}
	}
	d.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir, running...)
	d.ohm("audit")
	if code := d.terminate(); code != 0 {
		t.Errorf("the cell ended with %d", code)
	}
	if groups := cgroups(t, dir); len(groups) > 0 {
		t.Errorf("control groups are left: %v", groups)
	}
}

// Field case 61: ten tasks outlive their cell; the job is stopped once there is one
// again, and nothing of them is left.
func TestCase61(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDevAt(t, dir, freeAddress(t))
	d.run(service("ten", 10, notes))
	var running []int
	for _, v := range d.tasks("ten") {
		alive(t, v.Pid)
		running = append(running, v.Pid)
	}
	if len(running) != 10 {
		t.Fatalf("%d tasks run", len(running))
	}
	d.kill()
	d = d.again()
	d.ohm("stop", "ten", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir, running...)
}

// SIGTERM ends a cell cleanly, leaves the tasks, and says so.
func TestSigtermLeavesTasks(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDevAt(t, dir, freeAddress(t))
	d.run(service("svc", 2, notes))
	before := map[string]string{}
	var running []int
	for name, v := range d.tasks("svc") {
		before[name] = alive(t, v.Pid)
		running = append(running, v.Pid)
	}
	if code := d.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	said := d.stderr()
	for _, want := range []string{"2 tasks go on running", "`ohm stop --all`"} {
		if !strings.Contains(said, want) {
			t.Errorf("stderr does not say %q:\n%s", want, said)
		}
	}
	for _, pid := range running {
		alive(t, pid)
	}
	d = d.again()
	for name, v := range d.tasks("svc") {
		if got := alive(t, v.Pid); got != before[name] {
			t.Errorf("%s was process %s, now it is %s", name, before[name], got)
		}
	}
	d.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir, running...)
	if code := d.terminate(); code != 0 || strings.Contains(d.stderr(), "go on running") {
		t.Errorf("exit code %d after the stop, stderr:\n%s", code, d.stderr())
	}
}

// A service whose task ends again and again is shown to be in a crash loop, beside one that runs.
func TestCrashLoop(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	d.ohm("run", d.job("job: web\nkind: service\ngroups:\n  - {name: good, cpu: 10m, memory: 16Mi, command: [sleep, \"1000\"]}\n  - {name: bad, cpu: 10m, memory: 16Mi, command: [sh, -c, exit 3]}\n"))
	within(t, patience, "it is called a crash loop", func() bool {
		s := read[struct {
			Message string
			Groups  []struct{ Running, Crashing int }
		}](d.client, "status", "web")
		return len(s.Groups) == 2 && s.Groups[0].Running == 1 && s.Groups[0].Crashing == 0 && s.Groups[1].Crashing == 1 &&
			strings.HasPrefix(s.Message, "bad/0 is in a crash loop: it ended 3 times in a row soon after its start, at last so: exited 3")
	})
}
