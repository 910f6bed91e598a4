package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Field case 114: a task wants another signal than the usual one, and has a child and a double
// fork in sessions of their own, deaf to it. All of them get that signal, and a moment after the
// grace nothing is left.
func TestCase114(t *testing.T) {
	t.Parallel()
	dir, notes := shortDir(t), shortDir(t)
	d := startDev(t, dir)
	const grace, slack = 3 * time.Second, 15 * time.Second // a second on an idle machine
	script := filepath.Join(notes, "tree.sh")
	// Not SIGQUIT: what a shell starts in the background ignores that, and cannot trap it.
	if err := os.WriteFile(script, []byte(`#!/bin/sh
trap "echo $1 got USR1 >>`+notes+`/got" USR1
trap "echo $1 got TERM >>`+notes+`/got" TERM
echo $1 up >>`+notes+`/up
while :; do sleep 0.05; done
`), 0o755); err != nil {
		t.Fatal(err)
	}
	d.ohm("run", d.job(fmt.Sprintf(`
job: tree
kind: service
stop: {signal: SIGUSR1, grace: %s}
groups:
  - name: main
    cpu: 10m
    memory: 32Mi
    command: [sh, -c, "setsid %[2]s child & setsid sh -c '%[2]s orphan &' & exec %[2]s main"]
`, grace, script)))
	lines := func(name string) string { return contents(filepath.Join(notes, name)) }
	within(t, patience, "the tree is up", func() bool { return strings.Count(lines("up"), "up\n") == 3 })
	pid := d.pid("tree/main/0")
	alive(t, pid)
	began := time.Now()
	d.ohm("stop", "tree", "--wait", "--timeout", patience.String())
	if took := time.Since(began); took < grace || took > grace+slack {
		t.Errorf("it was over after %v, with a grace of %v", took, grace)
	}
	for _, who := range []string{"main", "child", "orphan"} {
		if !strings.Contains(lines("got"), who+" got USR1\n") {
			t.Errorf("%s did not get the signal: %q", who, lines("got"))
		}
	}
	if strings.Contains(lines("got"), "TERM") {
		t.Errorf("another signal was sent: %q", lines("got"))
	}
	if v := d.tasks("tree")["tree/main/0"]; v.State != "Stopped" || v.Cause != "Stopped" {
		t.Errorf("it is %s, %s", v.State, v.Cause)
	}
	nothingLeft(t, dir, pid)
}
