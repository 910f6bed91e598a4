//go:build linux

package containerd

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver/drivertest"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// Field case 64: a container's init is killed while containerd is away. Soon after it is back
// the task has ended, without a code that nobody has seen, and nothing of it is left.
func TestCase64InitKilledWithoutDaemon(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	p.run("one", "sleep 1000 & wait")
	init := 0
	for _, pid := range p.cgroups("one").PIDs() {
		if isInit(pid) {
			init = pid
		}
	}
	if init == 0 {
		t.Fatal("it has no init")
	}
	s.End(syscall.SIGKILL)
	if err := syscall.Kill(init, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	drivertest.Eventually(t, "its processes are gone", func() bool { return len(drivertest.Marked("one")) == 0 })
	s.Again(t)
	back := time.Now()
	drivertest.Eventually(t, "its end is seen", func() bool {
		o, _, err := p.Observe(t.Context(), "one")
		return err == nil && task.Ended(o.State)
	})
	if took := time.Since(back); took > 15*time.Second {
		t.Errorf("seen after %v", took)
	}
	if o := p.see("one"); o.State != task.Failed || o.Cause != task.UnknownExit || o.Signal != 0 || o.ExitCode != 0 {
		t.Errorf("ended as %+v", o)
	}
	if class, _ := task.ClassOf(task.UnknownExit); class != task.Infrastructure {
		t.Errorf("it spends a retry: class %d", class)
	}
	if err := p.Remove(t.Context(), "one"); err != nil {
		t.Error(err)
	}
}

// TestRestartedNode: what ran before the node's boot is over, whatever of it containerd still
// has, and is not taken for alive.
func TestRestartedNode(t *testing.T) {
	s := newSetup(t)
	p := s.place(t)
	p.run("one", "sleep 1000")
	s.End(syscall.SIGKILL)
	if err := syscall.Kill(p.shimOfTask("one"), syscall.SIGKILL); err != nil { // as if the power had failed
		t.Fatal(err)
	}
	if err := p.cgroups("one").Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := p.readState("one")
	if err != nil {
		t.Fatal(err)
	}
	st.Boot = "another"
	if err := folder.Write(filepath.Join(p.folder("one"), stateFile), st); err != nil {
		t.Fatal(err)
	}
	s.Again(t)
	drivertest.Eventually(t, "its end is seen", func() bool {
		o, _, err := p.Observe(t.Context(), "one")
		return err == nil && task.Ended(o.State)
	})
	if o := p.see("one"); o.Cause != task.UnknownExit || !strings.Contains(o.Message, "restarted") {
		t.Errorf("ended as %+v", o)
	}
}
