// Package proc names processes for good, and reads what /proc says of them.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrGone says that a process is not there any more: another one may have its pid.
var ErrGone = errors.New("process is gone")

// Process names one process for good, for as long as the node is not booted again.
type Process struct {
	Pid   int
	Start uint64 // clock ticks after boot: field 22 of /proc/<pid>/stat
}

// Stat is what matters of /proc/<pid>/stat.
type Stat struct {
	Process
	Parent  int
	State   byte // Z and X: dead
	Threads int
}

// Dead tells a zombie from a process whose first thread alone has ended.
func (s Stat) Dead() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// ReadStat reads it; ErrGone if there is no such process.
func ReadStat(pid int) (Stat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, ErrGone
	}
	// The name, in brackets, may hold anything: fields are counted after the last bracket.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 20 {
		return Stat{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	parent, err1 := strconv.Atoi(f[1])
	threads, err2 := strconv.Atoi(f[17])
	start, err3 := strconv.ParseUint(f[19], 10, 64)
	return Stat{Process{pid, start}, parent, f[0][0], threads}, errors.Join(err1, err2, err3)
}

// Self is this process.
func Self() (Process, error) {
	s, err := ReadStat(os.Getpid())
	return s.Process, err
}

// Open gives a handle of exactly this process. The handle is taken first and the start
// time compared then, so a pid that was used again in between is noticed.
func (p Process) Open() (pidfd int, err error) {
	if p.Pid <= 0 {
		return -1, ErrGone
	}
	pidfd, err = unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		if err == unix.ESRCH {
			err = ErrGone
		}
		return -1, err
	}
	if !p.Lives() {
		unix.Close(pidfd)
		return -1, ErrGone
	}
	return pidfd, nil
}

// Signal sends sig to exactly this process; ErrGone if it is not there.
func (p Process) Signal(sig syscall.Signal) error {
	pidfd, err := p.Open()
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	err = unix.PidfdSendSignal(pidfd, sig, nil, 0)
	if err == unix.ESRCH {
		return ErrGone
	}
	return err
}

// Lives says whether exactly this process is there and no zombie.
func (p Process) Lives() bool {
	s, err := ReadStat(p.Pid)
	return err == nil && s.Start == p.Start && !s.Dead()
}

// Place is where a process stands among the others, by /proc/<pid>/status.
type Place struct {
	Parent int
	Local  int  // its pid in its innermost pid namespace
	Nested bool // that is none of the reader's
}

// ReadPlace reads it; ErrGone if there is no such process.
func ReadPlace(pid int) (p Place, err error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return p, ErrGone
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		switch {
		case name == "PPid" && len(f) == 1:
			p.Parent, _ = strconv.Atoi(f[0])
		case name == "NSpid" && len(f) > 0:
			p.Local, _ = strconv.Atoi(f[len(f)-1])
			p.Nested = len(f) > 1
		}
	}
	return p, nil
}

// Pids are those of all processes there are.
func Pids() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// BootID is another one after each boot of the node: pids of another boot mean nothing.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}
