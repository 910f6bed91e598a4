//go:build linux

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTooFull(t *testing.T) {
	for _, c := range []struct {
		was        bool
		taken      int
		full, free int
		want       bool
	}{
		{false, 94, 95, 90, false}, {false, 95, 95, 90, true}, {true, 94, 95, 90, true}, {true, 90, 95, 90, true}, {true, 89, 95, 90, false},
		{true, 95, 95, 99, true}, {true, 94, 95, 99, false}, // turned round, it is one limit
	} {
		if got := tooFull(c.was, c.taken, c.full, c.free); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestCase115: on a full disk the node says so, the oldest logs of ended tasks go until there
// is room again, and those that ended a moment ago, and all that runs, stay.
func TestCase115(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	inWorld(t, func(w *world) {
		w.config.DiskPath, w.config.KeepLogsMin = dir, time.Hour
		full := func() string {
			t.Helper()
			x := w.session()
			w.mu.Lock()
			defer w.mu.Unlock()
			if n := len(x.facts); n > 0 {
				return x.facts[n-1].GetDiskFull()
			}
			return x.hello.GetNode().GetDiskFull()
		}
		// A task's log is 100 KiB on that disk.
		path := func(id string) string { return filepath.Join(dir, id) }
		w.m.onRemove = func(id string) {
			if err := os.Remove(path(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
		w.start()
		w.complete()
		ids := map[string]string{}
		logs := func() (names string) {
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				if _, err := os.Stat(path(ids[name])); err == nil {
					names += name
				}
			}
			return names
		}
		run := func(name string) {
			t.Helper()
			a := assignment(name, 100)
			ids[name] = a.Id
			w.incremental(nil, a)
			if err := os.WriteFile(path(a.Id), make([]byte, 100<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			if name != "e" {
				w.m.exit(a.Id, 0)
				w.incremental([]string{a.Id})
			}
		}
		for _, name := range []string{"a", "b", "c"} {
			run(name)
			w.pass(time.Minute)
		}
		w.pass(2 * time.Hour)
		run("d")
		run("e")
		equal(t, "full", full(), "")
		if err := os.WriteFile(path("fill"), make([]byte, 500<<10), 0o600); err != nil { // to 98 %
			t.Fatal(err)
		}
		running := w.rev
		w.pass(time.Minute)
		equal(t, "logs", logs(), "bcde") // 88 %
		equal(t, "full", full(), "")     // it was, for a moment
		if err := os.WriteFile(path("more"), make([]byte, 120<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		w.rev = running
		w.complete(assignment("e", 100))
		w.pass(time.Minute)
		equal(t, "logs", logs(), "de") // with b gone 90 % are taken, which is not yet below it
		if err := os.WriteFile(path("most"), make([]byte, 190<<10), 0o600); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.complete(assignment("e", 100))
		w.pass(time.Minute)
		equal(t, "logs of the newest", logs(), "de")
		if full() == "" {
			t.Error("the node does not say that its disk is full")
		}
		equal(t, "running", w.m.knows(), []string{ids["e"]})
	})
}
