package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// counter is a job whose attempts say a number each and fail, but for the one after so many.
func counter(name string, failures int, dir string) string {
	return fmt.Sprintf(`job: %s
kind: batch
retries: %d
groups:
  - name: main
    cpu: 10m
    memory: 16Mi
    command: [sh, -c, "echo a >>%s/%s; echo attempt $(wc -l <%s/%s); [ $(wc -l <%s/%s) -gt %d ]"]
`, name, failures, dir, name, dir, name, dir, name, failures)
}

// TestUsage: what a running task uses is told, and the most that one had which was killed for
// its memory.
func TestUsage(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	d.run(service("web", 1, shortDir(t)))
	type usage struct {
		Task  string
		Usage struct{ MemoryPeakBytes, MemoryLimitBytes, Processes int64 }
	}
	stats := read[[]usage](d.client, "task", "stats", "web")
	if len(stats) != 1 || stats[0].Task != "web/main/0" || stats[0].Usage.MemoryPeakBytes <= 0 || stats[0].Usage.MemoryLimitBytes != 16<<20 || stats[0].Usage.Processes < 1 {
		t.Errorf("stats say %+v", stats)
	}
	if said := d.ohm("explain", "web"); !strings.Contains(said, "what its running tasks use:") || !strings.Contains(said, "16Mi") {
		t.Errorf("explain says %s", said)
	}
	d.try("run", "--wait", d.job(`job: eater
kind: batch
groups:
  - name: main
    cpu: 10m
    memory: 64Mi
    command: [dd, if=/dev/zero, of=/dev/null, bs=200M, count=1]
`))
	said := d.ohm("explain", "eater")
	if !strings.Contains(said, "OOMKilled") || !strings.Contains(said, "64Mi of 64Mi") {
		t.Errorf("explain says %s", said)
	}
}

// Field case 115: a node with a full disk takes no new task, and says why; of an
// attempt whose log was removed it is said when, also by the agent after.
func TestFullDiskAndExpiredLog(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDev(t, dir, "--keep-logs", "1")
	d.ohm("run", d.job(counter("tries", 2, notes)), "--wait")
	expired := func() bool {
		a := d.try("logs", "tries", "--attempt", "1")
		return a.code == 4 && strings.Contains(a.stderr, "expired at 20")
	}
	within(t, patience, "the log of attempt 1 has expired", expired)
	if code := d.terminate(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	d = d.again("--disk-full", "1")
	if !expired() {
		t.Error("that the log has expired was forgotten")
	}
	if out := d.ohm("logs", "tries"); out != "attempt 3\n" {
		t.Errorf("the last attempt said %q", out)
	}
	within(t, patience, "the node says that its disk is full", func() bool { return strings.Contains(d.ohm("node", "list"), "DiskFull") })
	d.ohm("run", d.job(service("web", 1, notes)))
	within(t, patience, "it is said why the task waits", func() bool { return strings.Contains(d.ohm("explain", "web"), "of the agent's disk is taken") })
	if tasks := d.tasks("web"); tasks["web/main/0"].Node != "" {
		t.Errorf("it was placed: %+v", tasks)
	}
	if a := d.try("exec", "web", "--", "true"); a.code != 125 {
		t.Errorf("a program in a task that waits: %d", a.code)
	}
	if code := d.terminate(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	d = d.again("--disk-full", "100", "--disk-free", "100")
	within(t, patience, "the task runs", func() bool { return d.status("web").State == "Running" })
}

// Field case 106: programs are run in tasks, and it is known by whom.
func TestExec(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	d.run(service("web", 1, shortDir(t)))

	run := func(args ...string) answer { return d.try(append([]string{"exec"}, args...)...) }
	if a := run("web", "--", "sh", "-c", "echo out; echo err >&2; exit 42"); a.code != 42 || a.stdout != "out\n" || a.stderr != "err\n" {
		t.Errorf("exit code %d, %q, %q", a.code, a.stdout, a.stderr)
	}
	if a := run("web/main/7", "--", "true"); a.code != 125 || !strings.Contains(a.stderr, "no task 7") {
		t.Errorf("in no task: %d, %s", a.code, a.stderr)
	}
	if a := run("web", "--", "/no/such/program"); a.code != 125 || !strings.Contains(a.stderr, "/no/such/program") {
		t.Errorf("no program: %d, %s", a.code, a.stderr)
	}
	cmd := exec.Command(filepath.Join(programs, "ohm"), "exec", "--address", d.address, "-i", "web", "--", "sh", "-c", "wc -c")
	cmd.Env = environment()
	cmd.Stdin = strings.NewReader(strings.Repeat("x", 300_000))
	if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "300000" {
		t.Errorf("of 300000 bytes it has read %q, %v", out, err)
	}
	list := d.ohm("exec", "--list", "web")
	for _, want := range []string{"exited 42", "sh -c echo out; echo err >&2; exit 42", "127.0.0.1:", "web/main/0", "/no/such/program"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in the list:\n%s", want, list)
		}
	}

	// The cell remembers it, also of one that runs when its server is killed.
	cut := start(t, "ohm", "exec", "--address", d.address, "web", "--", "sh", "-c", "echo up; sleep 1000")
	within(t, patience, "a program runs", func() bool { return cut.stdout() == "up\n" })
	d.kill()
	d = d.again()
	if code := cut.code(); code != 125 {
		t.Errorf("the caller of the killed server ends with %d", code)
	}
	type record struct {
		ID, Who, Task, Node, Result string
		Attempt, Code               int
		Time, Ended                 string
		Command                     []string
	}
	all := read[[]record](d.client, "exec", "--list", "web")
	if len(all) < 4 || all[0].Result != "its end was not seen" || all[0].Ended != "" || all[0].Command[2] != "echo up; sleep 1000" {
		t.Fatalf("after the restart the list is %+v", all)
	}
	first := all[len(all)-1]
	if first.Code != 42 || first.Result != "exited 42" || first.Task != "web/main/0" || first.Attempt != 1 || first.Node == "" ||
		!strings.HasPrefix(first.Who, "127.0.0.1:") || first.Time == "" || first.Ended == "" || first.ID == "" {
		t.Errorf("of the first program it says %+v", first)
	}
	if other := read[[]record](d.client, "exec", "--list", "other"); len(other) > 0 {
		t.Errorf("of another job: %+v", other)
	}
	d.ohm("stop", "--all", "--wait", "--timeout", patience.String())
}

// TestCase71: the logs of attempts that crashed are there, each by itself; after retention
// it is said when they went.
func TestCase71(t *testing.T) {
	t.Parallel()
	const crashes = 5
	d := startDevAt(t, shortDir(t), freeAddress(t))
	d.ohm("run", d.job(counter("tries", crashes, shortDir(t))), "--wait", "--timeout", patience.String())
	for attempt := 1; attempt <= crashes+1; attempt++ {
		if out := d.ohm("logs", "tries", "--attempt", fmt.Sprint(attempt)); out != fmt.Sprintf("attempt %d\n", attempt) {
			t.Errorf("attempt %d said %q", attempt, out)
		}
	}
	if a := d.try("logs", "tries", "--attempt", "9"); a.code != 4 || strings.Contains(a.stderr, "expired") {
		t.Errorf("attempt 9: %d, %s", a.code, a.stderr)
	}
	if code := d.terminate(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	d = d.again("--keep-logs", "1")
	within(t, patience, "the logs of the first attempts have expired", func() bool {
		a := d.try("logs", "tries", "--attempt", "1")
		return a.code == 4 && strings.Contains(a.stderr, "expired at 20")
	})
	if out := d.ohm("logs", "tries"); out != fmt.Sprintf("attempt %d\n", crashes+1) {
		t.Errorf("the last attempt said %q", out)
	}
}
