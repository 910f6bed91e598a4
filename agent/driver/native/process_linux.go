package native

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errGone says that a process is not there any more: another one may have its pid.
var errGone = errors.New("process is gone")

// stat is what matters of /proc/<pid>/stat.
type stat struct {
	process
	Parent  int
	State   byte // Z and X: dead
	Threads int
}

// dead tells a zombie from a process whose first thread alone has ended.
func (s stat) dead() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

func readStat(pid int) (stat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, errGone
	}
	// The name, in brackets, may hold anything: fields are counted after the last bracket.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	parent, err1 := strconv.Atoi(f[1])
	threads, err2 := strconv.Atoi(f[17])
	start, err3 := strconv.ParseUint(f[19], 10, 64)
	return stat{process{pid, start}, parent, f[0][0], threads}, errors.Join(err1, err2, err3)
}

// open gives a handle of exactly this process. The handle is taken first and the start
// time compared then, so a pid that was used again in between is noticed.
func (p process) open() (pidfd int, err error) {
	if p.Pid <= 0 {
		return -1, errGone
	}
	pidfd, err = unix.PidfdOpen(p.Pid, 0)
	if err != nil {
		if err == unix.ESRCH {
			err = errGone
		}
		return -1, err
	}
	if s, err := readStat(p.Pid); err != nil || s.Start != p.Start || s.dead() {
		unix.Close(pidfd)
		return -1, errGone
	}
	return pidfd, nil
}

// signal sends sig to exactly this process; errGone if it is not there.
func (p process) signal(sig syscall.Signal) error {
	pidfd, err := p.open()
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	err = unix.PidfdSendSignal(pidfd, sig, nil, 0)
	if err == unix.ESRCH {
		return errGone
	}
	return err
}

// lives says whether exactly this process is there and no zombie.
func (p process) lives() bool {
	s, err := readStat(p.Pid)
	return err == nil && s.Start == p.Start && !s.dead()
}

// processes are all that /proc shows, zombies too.
func processes() ([]stat, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

// family is a process and the living ones below it, as they were seen at one moment.
// As every orphan of a task falls to its init or shim, these are all of the task.
type family struct {
	root  process
	below []process      // parents first
	start map[int]uint64 // of root and of all below, dead ones too, by pid
}

func familyOf(root process) (family, error) {
	f := family{root: root, start: map[int]uint64{root.Pid: root.Start}}
	all, err := processes()
	if err != nil || !root.lives() {
		return f, err
	}
	children := map[int][]stat{}
	for _, s := range all {
		children[s.Parent] = append(children[s.Parent], s)
	}
	for queue := []int{root.Pid}; len(queue) > 0; queue = queue[1:] {
		for _, c := range children[queue[0]] {
			if f.start[c.Pid] != 0 {
				continue
			}
			f.start[c.Pid] = c.Start
			queue = append(queue, c.Pid) // a dead one may still have children
			if !c.dead() {
				f.below = append(f.below, c.process)
			}
		}
	}
	return f, nil
}

// signal sends sig to a process below the root, if it is there and still below it: pids may
// have changed hands while the family was looked at.
func (f family) signal(p process, sig syscall.Signal) {
	pidfd, err := p.open()
	if err != nil {
		return
	}
	defer unix.Close(pidfd)
	for pid := p.Pid; pid != f.root.Pid; {
		s, err := readStat(pid)
		if err != nil || s.Start != f.start[pid] {
			return
		}
		pid = s.Parent
	}
	if f.root.lives() {
		_ = unix.PidfdSendSignal(pidfd, sig, nil, 0) // it may have ended by now
	}
}

// kill kills all below root. They are stopped first, so that none forks away from under
// the eyes; whoever needs to know looks again.
func kill(root process) error {
	stopped := map[process]bool{}
	for {
		f, err := familyOf(root)
		if err != nil {
			return err
		}
		news := false
		for _, p := range f.below {
			if !stopped[p] {
				stopped[p], news = true, true
				f.signal(p, syscall.SIGSTOP)
			}
		}
		if !news {
			for _, p := range slices.Backward(f.below) { // or children would be orphans by then, below another one
				f.signal(p, syscall.SIGKILL)
			}
			return nil
		}
	}
}

// nodePid is the pid, in this pid namespace, of root's child that calls itself local in
// its own one.
func nodePid(root process, local int) (process, error) {
	all, err := processes()
	if err != nil {
		return process{}, err
	}
	for _, s := range all {
		if s.Parent != root.Pid {
			continue
		}
		data, err := os.ReadFile("/proc/" + strconv.Itoa(s.Pid) + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				f := strings.Fields(pids)
				if len(f) > 0 && f[len(f)-1] == strconv.Itoa(local) {
					return s.process, nil
				}
			}
		}
	}
	return process{}, fmt.Errorf("no process %d below %d", local, root.Pid)
}

func bootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data)), err
}

func self() (process, error) {
	s, err := readStat(os.Getpid())
	return s.process, err
}
