// Package cgroup is what drivers know of Linux control groups: where the machine has them,
// v1 or v2 or some of both, how a task's are limited, counted, emptied and given back. It
// knows no driver: a task's groups are made here, or found where a container runtime has
// made them.
package cgroup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
)

// Limits of one task; 0: none.
type Limits struct {
	Memory   int64 // bytes
	CPUMilli int64 // a weight, thousandths of a core: under pressure tasks share in proportion to it
	CPUMax   int64 // thousandths of a core that are never exceeded
	Pids     int64 // processes and threads
}

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

// mounts are where the machine shows its cgroup hierarchies: by v1 controller, and
// cgroup2 under "".
func mounts(mountinfo []byte) map[string]string {
	at := map[string]string{}
	for line := range bytes.Lines(mountinfo) {
		front, back, ok := strings.Cut(string(line), " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 5 || len(b) < 3 {
			continue
		}
		path := folder.Unescape(f[4])
		switch b[0] {
		case "cgroup2":
			if at[""] == "" {
				at[""] = path
			}
		case "cgroup":
			for _, option := range strings.Split(b[2], ",") {
				if at[option] == "" {
					at[option] = path
				}
			}
		}
	}
	return at
}

// Detect finds the cgroups that a driver may use under name, by trying them.
func Detect(mountinfo []byte, name string) Groups {
	at := mounts(mountinfo)
	var g Groups
	if at[""] != "" {
		g.Unified = filepath.Join(at[""], name)
		if try(Groups{Unified: g.Unified}) != nil {
			g.Unified = ""
		}
	}
	for _, c := range []struct {
		controller string
		dir        *string
		limit      func(dir string) Groups
	}{
		{"memory", &g.Memory, func(d string) Groups { return Groups{Memory: d} }},
		{"cpu", &g.CPU, func(d string) Groups { return Groups{CPU: d} }},
		{"pids", &g.Pids, func(d string) Groups { return Groups{Pids: d} }},
		{"cpuacct", &g.Account, func(d string) Groups { return Groups{Account: d} }},
		{"freezer", &g.Freezer, func(d string) Groups { return Groups{Freezer: d} }},
	} {
		if c.controller == "freezer" && g.Unified != "" || c.controller == "cpuacct" && at[c.controller] == "" {
			continue // of cgroup2's own
		}
		where := g.Unified
		if at[c.controller] != "" {
			where = filepath.Join(at[c.controller], name)
		}
		if where == "" {
			continue
		}
		one := c.limit(where)
		if where == g.Unified {
			one.Unified = where
		}
		if try(one) == nil {
			*c.dir = where
		}
	}
	return g
}

// try makes a task's cgroups with every limit and gives them back.
func try(g Groups) error {
	g.sweepProbes()
	probe := g.Child(fmt.Sprintf("%s%d-%016x", probePrefix, os.Getpid(), rand.Uint64()))
	err := probe.Create(Limits{Memory: 1 << 30, CPUMilli: 1000, Pids: 4096})
	return errors.Join(err, probe.Remove())
}

// Create makes a task's cgroups and sets its limits. It may be repeated.
func (g Groups) Create(l Limits) error {
	for tries := 0; ; tries++ {
		err := g.createOnce(l)
		// The folder above may go at any time with the last task that is removed.
		if !errors.Is(err, fs.ErrNotExist) || tries == 10 {
			return err
		}
	}
}

func (g Groups) createOnce(l Limits) error {
	for _, dir := range g.All() {
		if dir == g.Unified {
			if err := g.delegate(); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if g.Memory != "" && l.Memory > 0 {
		// What is over the limit is not to go to swap instead; not every kernel has that file.
		limit, swap, most := "memory.max", "memory.swap.max", int64(0)
		if g.Memory != g.Unified {
			limit, swap, most = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", l.Memory
		}
		if err := set(g.Memory, limit, l.Memory); err != nil {
			return err
		}
		if folder.Exists(filepath.Join(g.Memory, swap)) {
			if err := set(g.Memory, swap, most); err != nil {
				return err
			}
		}
	}
	if g.CPU != "" && l.CPUMilli > 0 {
		// 1024 shares or a weight of 100 are the usual amounts, here for one core.
		file, value := "cpu.weight", min(max(l.CPUMilli/10, 1), 10000)
		if g.CPU != g.Unified {
			file, value = "cpu.shares", min(max(l.CPUMilli*1024/1000, 2), 262144)
		}
		if err := set(g.CPU, file, value); err != nil {
			return err
		}
	}
	if g.CPU != "" && l.CPUMax > 0 {
		if err := g.setCPUMax(l.CPUMax); err != nil {
			return err
		}
	}
	if g.Pids != "" && l.Pids > 0 {
		return set(g.Pids, "pids.max", l.Pids)
	}
	return nil
}

// period, in microseconds, over which CPUMax is reckoned.
const period = 100_000

func (g Groups) setCPUMax(milli int64) error {
	quota := max(milli*period/1000, 1000) // the kernel takes no less
	if g.CPU == g.Unified {
		return Put(g.CPU, "cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	if err := set(g.CPU, "cpu.cfs_period_us", period); err != nil {
		return err
	}
	return set(g.CPU, "cpu.cfs_quota_us", quota)
}

// delegate makes the folder above a task's unified one and hands the controllers that
// tasks need down to it.
func (g Groups) delegate() error {
	parent := filepath.Dir(g.Unified)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	for _, c := range []struct{ name, dir string }{{"memory", g.Memory}, {"cpu", g.CPU}, {"pids", g.Pids}} {
		if c.dir != g.Unified {
			continue
		}
		for _, dir := range []string{filepath.Dir(parent), parent} {
			data, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
			if err != nil {
				return err
			}
			if slices.Contains(strings.Fields(string(data)), c.name) {
				continue
			}
			if err := Put(dir, "cgroup.subtree_control", "+"+c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// OOMs counts the processes that were killed for want of memory, in all groups of the
// task. (v1 counts a victim in its own group only.)
func (g Groups) OOMs() (n int64) {
	switch {
	case g.Memory == "":
	case g.Memory == g.Unified:
		n = counter(filepath.Join(g.Memory, "memory.events"), "oom_kill")
	default:
		for _, dir := range tree(g.Memory) {
			n += counter(filepath.Join(dir, "memory.oom_control"), "oom_kill")
		}
	}
	return n
}

func counter(path, name string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, _ := strings.Cut(s.Text(), " "); key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

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

func set(dir, file string, value int64) error {
	return Put(dir, file, strconv.FormatInt(value, 10))
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
