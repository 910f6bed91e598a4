//go:build linux

package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// write puts a file into a draft.
func write(draft string) error {
	return os.WriteFile(filepath.Join(draft, "spec"), nil, 0o600)
}

// TestClaim: a task's folder is there whole and locked, once, and goes as one.
func TestClaim(t *testing.T) {
	tasks := t.TempDir()
	held, err := Claim(tasks, "one", write)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(tasks, "one")
	if locked, err := Held(dir); !locked || err != nil || !Exists(filepath.Join(dir, "spec")) {
		t.Errorf("locked %v, %v", locked, err)
	}
	if _, err := Claim(tasks, "one", write); !errors.Is(err, fs.ErrExist) {
		t.Errorf("claimed twice: %v", err)
	}
	no := errors.New("no")
	if _, err := Claim(tasks, "two", func(string) error { return no }); !errors.Is(err, no) {
		t.Errorf("claimed without what is to be in it: %v", err)
	}
	held.Close()
	left := func() (names []string) {
		entries, err := os.ReadDir(tasks)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if names := left(); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
	for range 2 { // the second time there is nothing to be removed
		if err := Remove(tasks, "one"); err != nil {
			t.Error(err)
		}
	}
	if names := left(); len(names) != 0 {
		t.Errorf("left: %q", names)
	}
}

// TestSweep: what was cut short is given back, and not while somebody is at it.
func TestSweep(t *testing.T) {
	tasks := t.TempDir()
	made := func(name string) string {
		t.Helper()
		path := filepath.Join(tasks, name)
		if err := errors.Join(os.Mkdir(path, 0o700), write(path)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	task, gone, old, young := made("task"), made(GonePrefix+"x"), made(DraftPrefix+"1"), made(DraftPrefix+"2")
	held, _, err := Lock(young, unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	sweep := func(want ...string) {
		t.Helper()
		if err := Sweep(tasks); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(tasks)
		if err != nil || len(left) != len(want) {
			t.Errorf("left are %q, %v; want %q", left, err, want)
		}
		for _, path := range want {
			if !Exists(path) {
				t.Errorf("%s is gone", path)
			}
		}
	}
	shared, err := gate(tasks, unix.LOCK_SH) // a claim that has not locked its draft yet
	if err != nil {
		t.Fatal(err)
	}
	sweep(task, gone, old, young)
	shared.Close()
	sweep(task, young)
	held.Close()
	sweep(task)
}
