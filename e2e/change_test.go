package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// groupView is what `ohm status JOB -o json` says of a group.
type groupView struct{ Running, Stopping, Outdated, Succeeded, Waiting int }

func (c client) rollout(job string) string {
	return read[struct{ Rollout string }](c, "status", job).Rollout
}

func (c client) groups(job string) []groupView {
	return read[struct{ Groups []groupView }](c, "status", job).Groups
}

// Field case 77: what reaches no process restarts none: a label, a count. What reaches those of
// one group restarts those only.
func TestCase77(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	// Two groups of the same job; each task says in a file of its group and index that it starts.
	file := func(label string, count int, env string) string {
		text := strings.Replace(service("web", count, notes), "kind: service", "kind: service\nlabels: {team: "+label+"}", 1)
		text = strings.Replace(text, "$OHM_JOB-$OHM_INDEX", "$OHM_GROUP-$OHM_INDEX", 1)
		_, group, _ := strings.Cut(text, "groups:\n")
		return text + strings.Replace(strings.Replace(group, "name: main", "name: other\n    env: {A: "+env+"}", 1), fmt.Sprintf("count: %d", count), "count: 2", 1)
	}
	for _, step := range []struct {
		what        string
		label, env  string
		count       int
		main, other []int // starts so far, by index
	}{
		{"first", "a", "x", 2, []int{1, 1}, []int{1, 1}},
		{"a label", "b", "x", 2, []int{1, 1}, []int{1, 1}},
		{"the count", "b", "x", 4, []int{1, 1, 1, 1}, []int{1, 1}},
		{"one group", "b", "y", 4, []int{1, 1, 1, 1}, []int{2, 2}},
	} {
		d.run(file(step.label, step.count, step.env))
		within(t, patience, step.what, func() bool {
			s := d.groups("web")
			return len(s) == 2 && s[0].Running == step.count && s[1].Running == 2 && s[0].Stopping+s[1].Stopping == 0 &&
				starts(t, notes, "other", 0) == step.other[0] && starts(t, notes, "other", 1) == step.other[1]
		})
		for i, want := range step.main {
			if got := starts(t, notes, "main", i); got != want {
				t.Errorf("%s changed: main/%d started %d times, want %d", step.what, i, got, want)
			}
		}
		for i, want := range step.other {
			if got := starts(t, notes, "other", i); got != want {
				t.Errorf("%s changed: other/%d started %d times, want %d", step.what, i, got, want)
			}
		}
	}
}

// Field case 75, the whole way: scaled tasks start beside those that run, and are there after the
// next version, too.
func TestCase75(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	file := func(env string) string {
		return strings.Replace(service("web", 1, notes), "cpu:", "env: {A: "+env+"}\n    cpu:", 1)
	}
	d.run(file("x"))
	d.ohm("job", "scale", "web", "3")
	within(t, patience, "three run", func() bool { g := d.groups("web"); return g[0].Running == 3 })
	if n := starts(t, notes, "web", 0); n != 1 {
		t.Errorf("the first task has started %d times", n)
	}
	again := d.try("run", d.job(file("y")), "--wait", "--timeout", patience.String())
	if again.code != 0 || !strings.Contains(again.stderr, "count 3 (scaled), its file says 1") {
		t.Errorf("exit code %d: %s", again.code, again.stderr)
	}
	if g := d.groups("web"); g[0].Running != 3 || g[0].Outdated != 0 {
		t.Errorf("after the next version: %+v", g)
	}
	for i, want := range []int{2, 2, 2} {
		if n := starts(t, notes, "web", i); n != want {
			t.Errorf("task %d has started %d times, want %d", i, n, want)
		}
	}
}

// Field case 87: a task that is over its time limit has failed, as TimedOut; a limit that is
// raised in time is the same process's.
func TestCase87(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	limited := func(job, limit string) string {
		return strings.Replace(service(job, 1, notes), "kind: service", "kind: batch\nmaxRuntime: "+limit, 1)
	}
	d.ohm("run", d.job(limited("raised", "15s")))
	began := time.Now() // not before the task did
	within(t, patience, "raised runs", func() bool { return d.tasks("raised")["raised/main/0"].State == "Running" })
	before := d.tasks("raised")["raised/main/0"]
	d.ohm("apply", d.job(limited("raised", "1h")))
	d.ohm("run", d.job(limited("short", "2s")))
	within(t, patience, "short is over", func() bool { return d.status("short").State == "Failed" })
	if got := d.tasks("short")["short/main/0"]; got.Cause != "TimedOut" || got.State != "Failed" {
		t.Errorf("short: %+v", got)
	}
	within(t, patience, "the time that raised had first is over", func() bool { return time.Since(began) > 17*time.Second })
	if now := d.tasks("raised")["raised/main/0"]; now.Pid != before.Pid || now.Attempt != 1 || now.State != "Running" {
		t.Errorf("raised: %+v, before %+v", now, before)
	}
	d.ohm("apply", d.job(limited("raised", "3s"))) // that much is over
	within(t, patience, "raised is over", func() bool { return d.status("raised").State == "Failed" })
	if got := d.tasks("raised")["raised/main/0"]; got.Cause != "TimedOut" || got.Attempt != 1 || starts(t, notes, "raised", 0) != 1 {
		t.Errorf("raised: %+v after %d starts", got, starts(t, notes, "raised", 0))
	}
}

// A service is updated step by step, whatever the new version is like: one that does not come up
// takes the place of one task, and the job goes back by itself; a good one takes all.
func TestUpdate(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	version := func(v, extra string) string {
		text := strings.Replace(service("web", 4, notes), "kind: service",
			"kind: service\nupdate: {maxUnavailable: 1, steady: 200ms, progressDeadline: 3s, onFailure: revert"+extra+"}", 1)
		return strings.Replace(text, "name: main", "name: main\n    env: {V: "+v+"}", 1)
	}
	d.run(version("1", ""))
	first := d.tasks("web")

	bad := strings.Replace(version("2", ""), "      - sh\n", "      - no-such-program\n", 1)
	if a := d.try("run", d.job(bad), "--wait", "--timeout", patience.String()); a.code != 8 || !strings.Contains(a.stderr, "went back") || !strings.Contains(a.stderr, "main/0 ended") {
		t.Errorf("a bad version: exit code %d: %s", a.code, a.stderr)
	}
	within(t, patience, "the job is back", func() bool {
		g := d.groups("web")[0]
		return g.Running == 4 && g.Outdated+g.Stopping == 0 && d.rollout("web") == "Reverted"
	})
	same := 0
	for name, was := range first {
		if d.tasks("web")[name].Pid == was.Pid {
			same++
		}
	}
	if same < 3 { // one may have made way
		t.Errorf("%d of 4 tasks are still the same processes", same)
	}

	d.ohm("run", d.job(version("3", ", canary: 1")))
	within(t, patience, "the canary is there", func() bool {
		return d.try("job", "promote", "web").code == 0 || d.rollout("web") != "Running"
	})
	within(t, patience, "all have followed", func() bool { return d.rollout("web") == "Done" && d.groups("web")[0].Running == 4 })
	if got := starts(t, notes, "web", 3); got != 2 {
		t.Errorf("the last task started %d times, want 2", got)
	}
	if a := d.try("job", "promote", "web"); a.code != 5 {
		t.Errorf("a promotion of nothing: exit code %d: %s", a.code, a.stderr)
	}
	d.ohm("job", "revert", "web")
	within(t, patience, "all are back", func() bool { return d.rollout("web") == "Reverted" })
	if said := d.ohm("job", "get", "web"); !strings.Contains(said, "V=1") {
		t.Errorf("after the revert: %s", said)
	}
}
