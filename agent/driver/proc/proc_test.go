//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestStatOfAnyName: a process may call itself anything.
func TestStatOfAnyName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "a) Z 1 (b")
	if err := os.Symlink(sleep, name); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		t.Error(err)
	}
	s, err := ReadStat(pid)
	if err != nil || string(comm) != "a) Z 1 (b\n" || s.Pid != pid || s.Parent != os.Getpid() || s.Dead() || s.Start == 0 {
		t.Errorf("%q is %+v, %v", comm, s, err)
	}
	if p, err := ReadPlace(pid); err != nil || p != (Place{Parent: os.Getpid(), Local: pid}) {
		t.Errorf("it stands at %+v, %v", p, err)
	}
	pids, err := Pids()
	if err != nil || !slices.Contains(pids, pid) || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("there are %v, %v", pids, err)
	}

	// Another one that has its pid now, by its start time, is left alone.
	other := Process{pid, s.Start - 1}
	if err := other.Signal(syscall.SIGKILL); !errors.Is(err, ErrGone) || other.Lives() || !s.Lives() {
		t.Errorf("signalled the wrong one: %v", err)
	}
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	var info syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &info, 0, nil); err != nil || info.Signal() != syscall.SIGKILL {
		t.Errorf("it ended as %v, %v", info, err)
	}
	if _, err := s.Open(); !errors.Is(err, ErrGone) {
		t.Errorf("opened what has ended: %v", err)
	}
}
