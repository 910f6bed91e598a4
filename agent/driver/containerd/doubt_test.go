//go:build linux

package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// shimOfTask is the pid of the shim of a task's one container.
func (p *place) shimOfTask(id string) int {
	p.t.Helper()
	pid := p.shims()[containerID(id, driver.MainName, 0)]
	if pid == 0 {
		p.t.Fatalf("task %s has no shim", id)
	}
	return pid
}

// TestSilentShim: of a container whose shim does not answer containerd nothing is known, and
// nothing is done. (Found by make chaos: on a busy machine tasks were taken for vanished.)
func TestSilentShim(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	before := p.run("one", "sleep 1000")
	shim := p.shimOfTask("one")
	if err := syscall.Kill(shim, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(shim, syscall.SIGCONT) }() // it is this test's, as long as its task is there
	if o, ok, err := p.Observe(t.Context(), "one"); err == nil {
		t.Errorf("observed %+v, %v", o, ok)
	}
	if list, err := p.List(t.Context()); err == nil || len(list) > 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
	if err := syscall.Kill(shim, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if o := p.see("one"); o != before {
		t.Errorf("was %+v, is %+v", before, o)
	}
}

// TestShimOfNobody: a shim that containerd has lost goes with its task, and so does one of a
// task that nobody knows. (Found by make chaos: a daemon killed while it creates a process.)
func TestShimOfNobody(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	for _, id := range []string{"one", "two"} {
		p.run(id, "sleep 1000")
	}
	one, two := p.shimOfTask("one"), p.shimOfTask("two")
	s.End(syscall.SIGKILL)
	for _, id := range []string{"one", "two"} {
		// Without it the daemon does not find the shim again.
		address := filepath.Join(s.Dir, "state/io.containerd.runtime.v2.task", p.namespace, containerID(id, driver.MainName, 0), "address")
		if err := os.Remove(address); err != nil {
			t.Fatal(err)
		}
	}
	s.Again(t)
	drivertest.Eventually(t, "the daemon is found again", func() bool {
		_, err := p.client.Version(t.Context())
		return err == nil
	})
	if o, ok, err := p.Observe(t.Context(), "one"); err == nil {
		t.Errorf("while its shim lives it is %+v, %v", o, ok)
	}
	drivertest.Eventually(t, "it is taken for ended", func() bool {
		o, _, err := p.Observe(t.Context(), "one")
		return err == nil && o.Cause == task.UnknownExit
	})
	if err := p.Remove(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if err := folder.Discard(p.folder("two")); err != nil {
		t.Fatal(err)
	}
	if err := p.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{one, two} {
		if of := p.shimOf(pid); of != "" {
			t.Errorf("shim %d of %s is left", pid, of)
		}
	}
}

// TestStartLost: the answer to a start was lost. It is the same process that is started again,
// and it runs once. (Found by make chaos: the container was made anew, beside its command.)
func TestStartLost(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	for _, worked := range []bool{false, true} {
		id := map[bool]string{false: "unstarted", true: "started"}[worked]
		w := driver.Task{ID: id, Command: []string{"sh", "-c", "echo begun; sleep 1000"}, Box: driver.Box{Image: p.setup.image}}
		if err := p.claim(w); err != nil {
			t.Fatal(err)
		}
		if err := p.openLogs(id); err != nil {
			t.Fatal(err)
		}
		process, _, err := p.create(t.Context(), w, w.All()[0], state{})
		if err != nil {
			t.Fatal(err)
		}
		if worked {
			if err := process.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var o driver.Observation
		drivertest.Eventually(t, id+" runs", func() bool {
			o = p.see(id)
			return o.State == task.Running
		})
		if o.Pid == 0 {
			t.Errorf("observed %+v", o)
		}
		said := filepath.Join(string(p.logs), id, "stdout")
		drivertest.Eventually(t, id+" says something", func() bool {
			data, err := os.ReadFile(said)
			return err == nil && len(data) > 0
		})
		p.see(id)
		if data, err := os.ReadFile(said); string(data) != "begun\n" {
			t.Errorf("it said %q, %v", data, err)
		}
	}
}

// TestNeverRan: a container of which runc's init failed before there was any ohm-init is made
// again; one that ran, or was killed, is not. (Found by make chaos.)
func TestNeverRan(t *testing.T) {
	d := &Driver{tasks: t.TempDir()}
	w := driver.Task{ID: "one"}
	c := w.All()[0]
	if err := os.Mkdir(d.folder("one"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name   string
		report string
		st     state
		status int
		want   bool
	}{
		{"no word, and a failure", "", state{}, 1, true},
		{"the same for the fifth time", "", state{Tries: map[string]int{c.Name: mostTries}}, 1, false},
		{"its command was seen", "", state{Main: true}, 1, false},
		{"a word", "started 7\n", state{}, 1, false},
		{"killed", "", state{}, 137, false},
		{"exit 0", "", state{}, 0, false},
	} {
		if err := os.WriteFile(d.report("one", c.Name), []byte(x.report), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := d.neverRan(w, c, x.st, seen{there: true, status: x.status}); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// TestOneFetch: those that start tasks of one image fetch it one after the other, and others
// do not wait for them. (Found by make chaos: sixteen imports at once, none in time.)
func TestOneFetch(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	done, err := p.fetch(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.fetch(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	next := make(chan func())
	go func() {
		done, err := p.fetch(t.Context(), "a")
		if err != nil {
			t.Error(err)
		}
		next <- done
	}()
	select {
	case <-next:
		t.Error("two fetch the same image")
	default:
	}
	done()
	(<-next)()
	if len(p.fetches) > 0 {
		t.Errorf("%d fetches are left", len(p.fetches))
	}
}

// TestBundleInTheWay: what a killed daemon has left under a container's name keeps the task
// from starting only once. (Found by make chaos.)
func TestBundleInTheWay(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	way := filepath.Join(s.Dir, "state/io.containerd.runtime.v2.task", p.namespace, containerID("one", driver.MainName, 0))
	if err := os.MkdirAll(way, 0o700); err != nil {
		t.Fatal(err)
	}
	w := driver.Task{ID: "one", Command: []string{"sleep", "1000"}, Box: driver.Box{Image: p.setup.image}}
	if err := p.Start(t.Context(), w); !errors.Is(err, driver.ErrLater) {
		t.Errorf("the first start: %v", err)
	}
	if o := p.see("one"); o.State != task.Assigned {
		t.Errorf("then it is %+v", o)
	}
	if err := p.Start(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if o := p.see("one"); o.State != task.Running {
		t.Errorf("observed %+v", o)
	}
	if err := os.RemoveAll(way); err != nil {
		t.Fatal(err)
	}
}

// TestUnpackedByNobody: what is left of an unpacking that was cut short is given back, and not
// while an image is fetched.
func TestUnpackedByNobody(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	if _, err := p.client.SnapshotService(snapshotter).Prepare(t.Context(), "extract-1-x", ""); err != nil {
		t.Fatal(err)
	}
	done, err := p.fetch(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 1, 0} {
		keys, err := p.strays(t.Context(), nil)
		if err != nil || len(keys) != want {
			t.Errorf("strays %q, %v, want %d", keys, err, want)
		}
		switch {
		case want == 1:
			if err := p.sweep(t.Context()); err != nil {
				t.Error(err)
			}
		case done != nil:
			done()
			done = nil
		}
	}
}
