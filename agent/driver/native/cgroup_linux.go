package native

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
)

// maxPids bounds the processes and threads of a task that has a pids cgroup.
const maxPids = 4096

// limits of one task; 0: none.
type limits struct {
	Memory   int64 // bytes
	CPUMilli int64 // a weight, see the package comment
	Pids     int64
}

// groups are the cgroups of one task, or (in a driver) the ones above all tasks. Each is
// a folder, empty where the machine has no such thing. Limits are set wherever the
// controller lives; killing, freezing and membership go by Unified wherever there is one.
type groups struct {
	Unified string // on cgroup2
	Memory  string
	CPU     string
	Pids    string
	Freezer string // on v1, where there is no Unified
}

// child names the groups below g.
func (g groups) child(name string) groups {
	for _, dir := range []*string{&g.Unified, &g.Memory, &g.CPU, &g.Pids, &g.Freezer} {
		if *dir != "" {
			*dir = filepath.Join(*dir, name)
		}
	}
	return g
}

// v1 are the distinct folders on v1 hierarchies.
func (g groups) v1() []string {
	var dirs []string
	for _, dir := range []string{g.Memory, g.CPU, g.Pids, g.Freezer} {
		if dir != "" && dir != g.Unified && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (g groups) all() []string {
	if g.Unified == "" {
		return g.v1()
	}
	return append(g.v1(), g.Unified)
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
		path := unescape(f[4])
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

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	for _, c := range []string{" ", "\t", "\n", "\\"} {
		s = strings.ReplaceAll(s, fmt.Sprintf("\\%03o", c[0]), c)
	}
	return s
}

// detect finds the cgroups that a driver may use under name, by trying them.
func detect(mountinfo []byte, name string) groups {
	at := mounts(mountinfo)
	var g groups
	if at[""] != "" {
		g.Unified = filepath.Join(at[""], name)
		if try(groups{Unified: g.Unified}) != nil {
			g.Unified = ""
		}
	}
	for _, c := range []struct {
		controller string
		dir        *string
		limit      func(dir string) groups
	}{
		{"memory", &g.Memory, func(d string) groups { return groups{Memory: d} }},
		{"cpu", &g.CPU, func(d string) groups { return groups{CPU: d} }},
		{"pids", &g.Pids, func(d string) groups { return groups{Pids: d} }},
		{"freezer", &g.Freezer, func(d string) groups { return groups{Freezer: d} }},
	} {
		if c.controller == "freezer" && g.Unified != "" {
			continue
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
func try(g groups) error {
	probe := g.child(fmt.Sprintf("probe-%016x", rand.Uint64()))
	err := probe.create(limits{Memory: 1 << 30, CPUMilli: 1000, Pids: maxPids})
	return errors.Join(err, probe.remove())
}

// create makes a task's cgroups and sets its limits. It may be repeated.
func (g groups) create(l limits) error {
	for tries := 0; ; tries++ {
		err := g.createOnce(l)
		// The folder above may go at any time with the last task that is removed.
		if !errors.Is(err, fs.ErrNotExist) || tries == 10 {
			return err
		}
	}
}

func (g groups) createOnce(l limits) error {
	for _, dir := range g.all() {
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
		if exists(filepath.Join(g.Memory, swap)) {
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
	if g.Pids != "" && l.Pids > 0 {
		return set(g.Pids, "pids.max", l.Pids)
	}
	return nil
}

// delegate makes the folder above a task's unified one and hands the controllers that
// tasks need down to it.
func (g groups) delegate() error {
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
			if err := put(dir, "cgroup.subtree_control", "+"+c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// ooms counts the processes that were killed for want of memory.
func (g groups) ooms() int64 {
	if g.Memory == "" {
		return 0
	}
	file := "memory.events"
	if g.Memory != g.Unified {
		file = "memory.oom_control"
	}
	return counter(filepath.Join(g.Memory, file), "oom_kill")
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

// members is the folder whose members are the task's processes, empty if there is none.
func (g groups) members() string {
	if dirs := g.all(); len(dirs) > 0 {
		return dirs[len(dirs)-1]
	}
	return ""
}

// pids of all processes in the groups, also in those that the task made below them.
func (g groups) pids() []int {
	var pids []int
	top := g.members()
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

// kill ends whatever is in the groups, and waits for that until ctx ends.
func (g groups) kill(ctx context.Context) error {
	for {
		pids := g.pids()
		if len(pids) == 0 {
			return nil
		}
		if g.Unified == "" || put(g.Unified, "cgroup.kill", "1") != nil {
			g.killEach(pids)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("processes %v do not end: %w", pids, err)
		}
	}
}

// killEach is kill for kernels without cgroup.kill: nothing forks while it is frozen.
func (g groups) killEach(pids []int) {
	switch {
	case g.Unified != "":
		if put(g.Unified, "cgroup.freeze", "1") == nil {
			defer put(g.Unified, "cgroup.freeze", "0")
		}
	case g.Freezer != "":
		if put(g.Freezer, "freezer.state", "FROZEN") == nil {
			defer put(g.Freezer, "freezer.state", "THAWED")
		}
	}
	handles := map[int]int{}
	for _, pid := range pids {
		if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
			handles[pid] = pidfd
		}
	}
	// A pid that is still a member now, with the handle taken before, is the task's.
	members := g.pids()
	for pid, pidfd := range handles {
		if slices.Contains(members, pid) {
			_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // the caller looks again
		}
		unix.Close(pidfd)
	}
}

// remove gives the groups back, and the ones above them if these were the last.
func (g groups) remove() error {
	var errs []error
	for _, top := range g.all() {
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
		if err != unix.EBUSY || pause(ctx, 5*time.Millisecond) != nil {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
}

func set(dir, file string, value int64) error {
	return put(dir, file, strconv.FormatInt(value, 10))
}

// put writes to a control file, and never makes one.
func put(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
