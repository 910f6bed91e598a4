package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Field case 67: a task whose main process runs out of memory, one of which only a child does,
// and one that is killed by its own hand are three different things to whoever asks.
func TestCase67ThreeKills(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t))
	if !strings.Contains(d.ohm("node", "get", "here"), "cgroup-memory") {
		t.Skipf("%s: this machine limits no memory", t.Name())
	}
	job := func(name, command string) {
		t.Helper()
		d.ohm("run", d.job(fmt.Sprintf("job: %s\nkind: batch\ngroups:\n  - name: main\n    cpu: 10m\n    memory: 64Mi\n    command: [sh, -c, %q]\n", name, command)))
	}
	job("eater", "exec tail /dev/zero")
	job("parent", "tail /dev/zero; exec sleep 1000")
	job("own", "kill -9 $$")
	within(t, patience, "the two that end have ended", func() bool {
		return d.status("eater").State == "Failed" && d.status("own").State == "Failed"
	})
	for cause, want := range map[string]string{"OOMKilled": "1", "Signalled": "1"} {
		if got := d.metric(fmt.Sprintf(`ohm_attempts_ended_total{cause=%q}`, cause)); got != want {
			t.Errorf("%s attempts are counted as %q", cause, got)
		}
	}
	limit, peak := "its limit is 64Mi", "it used up to "
	for _, verb := range [][]string{{"task", "list", "eater"}, {"status", "eater"}, {"explain", "eater"}} {
		if out := d.ohm(verb...); !strings.Contains(out, "OOMKilled") || !strings.Contains(out, limit) || !strings.Contains(out, peak) {
			t.Errorf("ohm %s says of a main process out of memory:\n%s", strings.Join(verb, " "), out)
		}
	}
	for _, verb := range [][]string{{"task", "list", "own"}, {"status", "own"}, {"explain", "own"}} {
		if out := d.ohm(verb...); !strings.Contains(out, "signal 9") || strings.Contains(out, "memory") || strings.Contains(out, "OOM") {
			t.Errorf("ohm %s says of a task that killed itself:\n%s", strings.Join(verb, " "), out)
		}
	}
	const child = "a process of it was killed for memory; its limit is 64Mi"
	within(t, patience, "the child's end is told", func() bool { return strings.Contains(d.ohm("task", "list", "parent"), child) })
	if out := d.ohm("explain", "parent"); !strings.Contains(out, child) {
		t.Errorf("ohm explain says of a child out of memory:\n%s", out)
	}
	if v := d.tasks("parent")["parent/main/0"]; v.State != "Running" || v.Attempt != 1 || v.Cause != "" {
		t.Errorf("the task whose child was killed is %+v", v)
	}
}
