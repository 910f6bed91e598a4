package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Field case 119, end to end: what follows waits and says for whom, begins when that has succeeded,
// is skipped when it has failed; a circle is refused with its place; and a graph of many more
// jobs than one request takes runs to its end in order.
func TestAfter(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	job := func(name, after, command string) string {
		return d.job(fmt.Sprintf("job: %s\nkind: batch\n%sgroups:\n  - {name: main, cpu: 10m, memory: 8Mi, command: [sh, -c, %q]}\n", name, after, command))
	}
	wait := fmt.Sprintf("while [ ! -e %s/go ]; do sleep 0.05; done", notes)
	d.ohm("run", job("c", "after: {ok: [b]}\n", "true"), job("b", "after: {ok: [a]}\n", "true"), job("clean", "after: {any: [c]}\n", "true"), job("a", "", wait+"; exit 1"))
	type status struct{ State, Message string }
	within(t, patience, "a runs", func() bool { return read[status](d.client, "status", "a").State == "Running" })
	if s := read[status](d.client, "status", "b"); s.State != "Pending" || s.Message != "waiting for a" {
		t.Errorf("b: %+v", s)
	}
	if err := touch(notes, "go"); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "clean is over", func() bool { return read[status](d.client, "status", "clean").State == "Succeeded" })
	for name, want := range map[string]string{"b": "success of job a", "c": "success of job b"} {
		if s := read[status](d.client, "status", name); s.State != "Skipped" || !strings.Contains(s.Message, want) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if a := d.try("run", "--again", "b", "--wait", "--timeout", patience.String()); a.code != 1 || !strings.Contains(a.stderr, "was skipped") {
		t.Errorf("b again, after a that has failed: %d, %s", a.code, a.stderr)
	}

	x := job("x", "after: {ok: [y]}\n", "true")
	a := d.try("run", x, job("y", "after: {ok: [x]}\n", "true"))
	if a.code != 2 || !strings.Contains(a.stderr, x+":3:13: these jobs wait for each other") && !strings.Contains(a.stderr, x+":3:14: these jobs wait for each other") {
		t.Errorf("a circle: %d, %s", a.code, a.stderr)
	}

	var files []string
	const jobs = 120
	for i := jobs - 1; i >= 0; i-- { // the last one first
		after := ""
		if i > 0 {
			after = fmt.Sprintf("after: {ok: [n%d]}\n", i/2)
		}
		if i == 1 {
			after = "after: {ok: [n0]}\n"
		}
		files = append(files, job(fmt.Sprintf("n%d", i), after, "true"))
	}
	d.ohm(append([]string{"run", "--wait", "--timeout", patience.String()}, files...)...)
}
