// Package cgroup is what drivers know of Linux control groups: where the machine has them,
// v1 or v2 or some of both, how a task's are limited, counted, emptied and given back. It
// knows no driver: a task's groups are made here, or found where a container runtime has
// made them.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
)

// Groups are the cgroups of one task, or (in a driver) the ones above all tasks. Each is
// a folder, empty where the machine has no such thing. Limits are set wherever the
// controller lives; killing, freezing and membership go by Unified wherever there is one.
type Groups struct {
	Unified string // on cgroup2
	Memory  string
	CPU     string
	Pids    string
	Account string // cpuacct on v1: only counts, and is made where it is apart from CPU
	Freezer string // on v1, where there is no Unified

	// Rest are groups on further hierarchies of v1, where a container runtime makes some for
	// itself: they are given back with the others, and not used.
	Rest []string
}

// Child names the groups below g.
func (g Groups) Child(name string) Groups {
	for _, dir := range []*string{&g.Unified, &g.Memory, &g.CPU, &g.Pids, &g.Account, &g.Freezer} {
		if *dir != "" {
			*dir = filepath.Join(*dir, name)
		}
	}
	rest := make([]string, len(g.Rest))
	for i, dir := range g.Rest {
		rest[i] = filepath.Join(dir, name)
	}
	g.Rest = rest
	return g
}

// WithRest is g with all hierarchies of v1 that it does not use itself.
func (g Groups) WithRest(mountinfo []byte, name string) Groups {
	for _, at := range mounts(mountinfo) {
		dir := filepath.Join(at, name)
		if !slices.Contains(g.All(), dir) && !slices.Contains(g.Rest, dir) {
			g.Rest = append(g.Rest, dir)
		}
	}
	return g
}

// V1 are the distinct folders on v1 hierarchies.
func (g Groups) V1() []string {
	var dirs []string
	for _, dir := range []string{g.Memory, g.CPU, g.Pids, g.Account, g.Freezer} {
		if dir != "" && dir != g.Unified && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// All are the distinct folders of all hierarchies, cgroup2 last.
func (g Groups) All() []string {
	if g.Unified == "" {
		return g.V1()
	}
	return append(g.V1(), g.Unified)
}

// Remove gives the groups back, and the ones above them if these were the last.
func (g Groups) Remove() error {
	var errs []error
	for _, top := range append(g.All(), g.Rest...) {
		for _, dir := range slices.Backward(tree(top)) {
			if err := rmdir(dir); err != nil {
				errs = append(errs, err)
			}
		}
		_ = os.Remove(filepath.Dir(top)) // refused while another task has one
	}
	return errors.Join(errs...)
}

// rmdir waits a moment for a group whose last process is on its way out.
func rmdir(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for {
		err := unix.Rmdir(dir)
		if err == nil || err == unix.ENOENT {
			return nil
		}
		if err != unix.EBUSY || driver.Pause(ctx, 5*time.Millisecond) != nil {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
}

// Enter moves this process into the groups.
func (g Groups) Enter() error {
	for _, dir := range g.All() {
		if err := Put(dir, "cgroup.procs", "0"); err != nil { // 0: the process that writes
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

// Put writes to a control file, and never makes one.
func Put(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
