package native

import (
	"fmt"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver/proc"
)

// processes are all that /proc shows, zombies too.
func processes() ([]proc.Stat, error) {
	pids, err := proc.Pids()
	if err != nil {
		return nil, err
	}
	var all []proc.Stat
	for _, pid := range pids {
		if s, err := proc.ReadStat(pid); err == nil {
			all = append(all, s)
		}
	}
	return all, nil
}

// family is a process and the living ones below it, as they were seen at one moment.
// As every orphan of a task falls to its init or shim, these are all of the task.
type family struct {
	root  proc.Process
	below []proc.Process // parents first
	start map[int]uint64 // of root and of all below, dead ones too, by pid
}

func familyOf(root proc.Process) (family, error) {
	f := family{root: root, start: map[int]uint64{root.Pid: root.Start}}
	all, err := processes()
	if err != nil || !root.Lives() {
		return f, err
	}
	children := map[int][]proc.Stat{}
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
			if !c.Dead() {
				f.below = append(f.below, c.Process)
			}
		}
	}
	return f, nil
}

// signal sends sig to a process below the root, if it is there and still below it: pids may
// have changed hands while the family was looked at.
func (f family) signal(p proc.Process, sig syscall.Signal) {
	pidfd, err := p.Open()
	if err != nil {
		return
	}
	defer unix.Close(pidfd)
	for pid := p.Pid; pid != f.root.Pid; {
		s, err := proc.ReadStat(pid)
		if err != nil || s.Start != f.start[pid] {
			return
		}
		pid = s.Parent
	}
	if f.root.Lives() {
		_ = unix.PidfdSendSignal(pidfd, sig, nil, 0) // it may have ended by now
	}
}

// kill kills all below root. They are stopped first, so that none forks away from under
// the eyes; whoever needs to know looks again.
func kill(root proc.Process) error {
	stopped := map[proc.Process]bool{}
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
func nodePid(root proc.Process, local int) (proc.Process, error) {
	all, err := processes()
	if err != nil {
		return proc.Process{}, err
	}
	for _, s := range all {
		if s.Parent != root.Pid {
			continue
		}
		if place, err := proc.ReadPlace(s.Pid); err == nil && place.Local == local {
			return s.Process, nil
		}
	}
	return proc.Process{}, fmt.Errorf("no process %d below %d", local, root.Pid)
}
