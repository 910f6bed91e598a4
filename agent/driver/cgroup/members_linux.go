package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
)

// Names are those of the groups right below g, in whatever hierarchy.
func (g Groups) Names() []string {
	var names []string
	for _, dir := range append(g.All(), g.Rest...) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

// Members is the folder whose members are the task's processes, empty if there is none.
func (g Groups) Members() string {
	if dirs := g.All(); len(dirs) > 0 {
		return dirs[len(dirs)-1]
	}
	return ""
}

// PIDs are those of all processes in the Groups, also in those that the task made below them.
func (g Groups) PIDs() []int {
	var pids []int
	top := g.Members()
	if top == "" {
		return nil
	}
	for _, dir := range tree(top) {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// tree is dir and every folder below it, parents first; empty if dir is not there.
func tree(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	dirs := []string{dir}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, tree(filepath.Join(dir, e.Name()))...)
		}
	}
	return dirs
}

// Kill ends whatever is in the Groups, and waits for that until ctx ends.
func (g Groups) Kill(ctx context.Context) error {
	for {
		pids := g.PIDs()
		if len(pids) == 0 {
			return nil
		}
		g.Strike()
		if err := driver.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("processes %v do not end: %w", pids, err)
		}
	}
}

// Strike is one round of Kill: it kills whatever is in the groups now, and does not wait.
func (g Groups) Strike() {
	pids := g.PIDs()
	if len(pids) > 0 && (g.Unified == "" || Put(g.Unified, "cgroup.kill", "1") != nil) {
		g.killEach(pids)
	}
}

// killEach is Strike for kernels without cgroup.kill: nothing forks while it is frozen.
func (g Groups) killEach(pids []int) {
	switch {
	case g.Unified != "":
		if Put(g.Unified, "cgroup.freeze", "1") == nil {
			defer Put(g.Unified, "cgroup.freeze", "0")
		}
	case g.Freezer != "":
		if Put(g.Freezer, "freezer.state", "FROZEN") == nil {
			defer Put(g.Freezer, "freezer.state", "THAWED")
		}
	}
	handles := map[int]int{}
	for _, pid := range pids {
		if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
			handles[pid] = pidfd
		}
	}
	// A pid that is still a member now, with the handle taken before, is the task's.
	members := g.PIDs()
	for pid, pidfd := range handles {
		if slices.Contains(members, pid) {
			_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // the caller looks again
		}
		unix.Close(pidfd)
	}
}
