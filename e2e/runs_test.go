package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type runView struct {
	Run, Again int
	State      string
	Message    string
	Groups     []groupView
	Attempts   []struct{ Task, Node, Cause, Placed, Started, Ended string }
}

// Field case 82, with real tasks: two calls are two runs, the second after the first, each with its
// own outcome; and what failed of one is run once more without the rest.
func TestRuns(t *testing.T) {
	t.Parallel()
	d, notes := startDev(t, shortDir(t)), shortDir(t)
	file := d.job(fmt.Sprintf(`
job: nightly
kind: batch
groups:
  - name: main
    count: 3
    cpu: 10m
    memory: 16Mi
    command:
      - sh
      - -c
      - |
        echo started >> %[1]s/$OHM_JOB-$OHM_INDEX
        while [ ! -e %[1]s/go ]; do sleep 0.05; done
        test $OHM_INDEX != 1 -o -e %[1]s/mended
`, notes))
	d.ohm("run", file)
	within(t, patience, "the first run has begun", func() bool { return starts(t, notes, "nightly", 2) == 1 })
	if said := d.ohm("run", file); !strings.Contains(said, "nightly  batch  run 2  waits") {
		t.Errorf("the second call says %q", said)
	}
	if err := touch(notes, "go"); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "both runs are over", func() bool {
		h := read[[]runView](d.client, "job", "history", "nightly")
		return len(h) == 2 && h[0].State == "Failed" && h[1].State == "Failed"
	})
	for i, want := range []int{2, 2, 2} {
		if got := starts(t, notes, "nightly", i); got != want {
			t.Errorf("task %d started %d times in two runs, want %d", i, got, want)
		}
	}
	if err := touch(notes, "mended"); err != nil {
		t.Fatal(err)
	}
	d.ohm("run", "--again", "nightly", "--only-failed", "--wait", "--timeout", patience.String())
	for i, want := range []int{2, 3, 2} {
		if got := starts(t, notes, "nightly", i); got != want {
			t.Errorf("task %d started %d times, want %d: only what failed runs again", i, got, want)
		}
	}
	h := read[[]runView](d.client, "job", "history", "nightly")
	if len(h) != 3 || h[0].State != "Succeeded" || h[0].Again != 2 || h[0].Groups[0].Succeeded != 3 {
		t.Errorf("history: %+v", h)
	}
	first := read[runView](d.client, "job", "history", "nightly", "--run", "1")
	if len(first.Attempts) != 3 || first.Attempts[1].Task != "nightly/main/1" || first.Attempts[1].Cause != "exited 1" ||
		first.Attempts[1].Node == "" || first.Attempts[1].Placed == "" || first.Attempts[1].Started == "" || first.Attempts[1].Ended == "" {
		t.Errorf("the first run: %+v", first)
	}
	if !strings.Contains(first.Message, "main/1 failed (exited 1)") {
		t.Errorf("its cause: %q", first.Message)
	}
	if a := d.try("run", "--again", "nightly", "--only-failed"); a.code != 5 || !strings.Contains(a.stderr, "no task failed") {
		t.Errorf("once more: %d, %s", a.code, a.stderr)
	}
}

// touch makes an empty file.
func touch(dir, name string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }
