package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Field case 111: a scheduler's name that nobody knows is refused with those that there
// are; a job whose scheduler does not run says so.
func TestCase111(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--schedulers", "service")
	named := func(job, scheduler string) string {
		return d.job(strings.Replace(batch(job, 1), "kind: batch", "kind: batch\nscheduler: "+scheduler, 1))
	}
	a := d.try("run", named("lost", "btach"))
	if a.code != 2 {
		t.Errorf("exit code %d", a.code)
	}
	for _, want := range []string{`"btach"`, "batch, ml, service, system", "did you mean batch?"} {
		if !strings.Contains(a.stderr, want) {
			t.Errorf("it does not say %q: %s", want, a.stderr)
		}
	}
	if a := d.try("status", "lost"); a.code != 4 {
		t.Errorf("the refused job's status has exit code %d: %s", a.code, a.stdout)
	}

	// A built-in scheduler that has never run here, and one of somebody's own that has ended.
	own := start(t, "ohm", "scheduler", "--policy", "batch", "--name", "mine", "--address", d.address)
	within(t, patience, "mine is registered", func() bool { return d.try("run", named("fine", "mine")).code == 0 })
	within(t, patience, "its job is done", func() bool { return d.status("fine").State == "Succeeded" })
	if code := own.terminate(); code != 0 {
		t.Errorf("the scheduler ended with %d", code)
	}
	for job, scheduler := range map[string]string{"one": "batch", "two": "mine"} {
		d.ohm("run", named(job, scheduler))
		want := "scheduler " + scheduler + " has not been seen for "
		if s := d.status(job); s.State != "Pending" || !strings.HasPrefix(s.Message, want) {
			t.Errorf("status says %s, %q", s.State, s.Message)
		}
		if said := d.ohm("explain", job); !strings.Contains(said, want) {
			t.Errorf("explain says %s", said)
		}
	}
}

// Field case 7: a name means that name, and nothing that begins with it.
func TestCase7(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDev(t, dir)
	names := []string{"web", "web1", "web10"}
	for _, name := range names {
		d.run(service(name, 1, notes))
	}
	states := func(want ...string) {
		t.Helper()
		for i, name := range names {
			if s := d.status(name); s.Job != name || s.State != want[i] {
				t.Errorf("status of %s: %+v, want %s", name, s, want[i])
			}
		}
	}
	states("Running", "Running", "Running")
	if n := len(d.tasks("web")); n != 1 {
		t.Errorf("task list web lists %d tasks", n)
	}
	for _, nobody := range []string{"we", "w", "web100", "web-", "*"} {
		if a := d.try("stop", nobody); a.code != 4 && a.code != 2 {
			t.Errorf("stop %s: exit code %d", nobody, a.code)
		}
		if a := d.try("status", nobody); a.code != 4 && a.code != 2 {
			t.Errorf("status %s: exit code %d", nobody, a.code)
		}
	}
	if a := d.try("stop", "we"); a.code != 4 {
		t.Errorf("stop we: exit code %d", a.code)
	}
	states("Running", "Running", "Running")
	d.ohm("stop", "web", "--wait", "--timeout", patience.String())
	states("Stopped", "Running", "Running")
	d.ohm("stop", "web10", "--wait", "--timeout", patience.String())
	states("Stopped", "Running", "Stopped")
	d.ohm("stop", "web1", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir)
}

// A request id makes a repeated run harmless, and a different one of the same id a fault.
func TestRequestID(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	file := d.job(batch("nightly", 2))
	for range 2 {
		d.ohm("run", file, "--request-id", "tonight", "--wait", "--timeout", patience.String())
	}
	for name, v := range d.tasks("nightly") {
		if v.Attempt != 1 || v.State != "Succeeded" {
			t.Errorf("%s: attempt %d is %s", name, v.Attempt, v.State)
		}
	}
	if n := read[struct{ Version int64 }](d.client, "status", "nightly").Version; n != 1 {
		t.Errorf("the repeated run made version %d", n)
	}
	if a := d.try("run", d.job(batch("nightly", 3)), "--request-id", "tonight"); a.code != 5 {
		t.Errorf("other content under the same id: exit code %d: %s", a.code, a.stderr)
	}
	d.ohm("run", file, "--request-id", "tomorrow", "--wait", "--timeout", patience.String())
	if n := read[struct{ Version int64 }](d.client, "status", "nightly").Version; n != 2 {
		t.Errorf("the next run made version %d", n)
	}
}

// Logs follow a task while it runs, and end when it does.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDev(t, dir)
	d.ohm("run", d.job(fmt.Sprintf(`
job: talk
kind: batch
groups:
  - name: main
    cpu: 10m
    memory: 16Mi
    command: [sh, -c, "echo first; echo oops >&2; until [ -e %s/go ]; do sleep 0.2; done; echo last"]
`, notes)))
	within(t, patience, "the task runs", func() bool { return d.tasks("talk")["talk/main/0"].State == "Running" })
	follow := start(t, "ohm", "--address", d.address, "logs", "-f", "talk", "--stream", "stdout")
	within(t, patience, "the first line", func() bool { return follow.stdout() == "first\n" })
	if !follow.running() {
		t.Fatal("logs -f ended while the task runs")
	}
	if err := os.WriteFile(filepath.Join(notes, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code := follow.code(); code != 0 || follow.stdout() != "first\nlast\n" {
		t.Errorf("logs -f ended with %d and %q", code, follow.stdout())
	}
	if got := d.ohm("logs", "talk", "--stream", "stderr"); got != "oops\n" {
		t.Errorf("stderr is %q", got)
	}
}

// Simulated nodes take the jobs that ask for them, and no others.
func TestHollow(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--hollow-nodes", "50")
	d.run(`
job: many
kind: service
groups:
  - name: main
    count: 500
    cpu: 1
    memory: 1Gi
    command: [simulated]
    constraints:
      - {key: hollow, exists: true}
`)
	nodes := map[string]int{}
	for _, v := range d.tasks("many") {
		nodes[v.Node]++
		if !strings.HasPrefix(v.Node, "hollow-") || v.State != "Running" {
			t.Errorf("%s is %s on %s", v.Task, v.State, v.Node)
		}
	}
	if n := len(d.tasks("many")); n != 500 || len(nodes) != 50 {
		t.Errorf("%d tasks on %d nodes", n, len(nodes))
	}
	d.run(batch("real", 20))
	for _, v := range d.tasks("real") {
		if v.Node != "here" {
			t.Errorf("%s ran on %s", v.Task, v.Node)
		}
	}
	d.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	d.ohm("audit")
}
