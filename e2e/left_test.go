package e2e

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// procStat is what the kernel says of a process: its state, parent and start time.
type procStat struct {
	state, start string
	parent       int
}

// stat looks at a process; ok is false where there is none or only a zombie.
func stat(pid int) (s procStat, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, false
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:])) // from field 3 on, see proc(5)
	s.state, s.start = f[0], f[19]
	s.parent, _ = strconv.Atoi(f[1])
	return s, s.state != "Z" && s.state != "X"
}

// alive is the identity of a process that must be there: pid and start time.
func alive(t *testing.T, pid int) string {
	t.Helper()
	s, ok := stat(pid)
	if pid == 0 || !ok {
		t.Fatalf("there is no process %d", pid)
	}
	return fmt.Sprintf("%d since %s", pid, s.start)
}

// pids lists the processes of the machine.
func pids() (all []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// keepers are the driver's processes below a data dir: shims and inits name it on their
// command line.
func keepers(dir string) (found []int) {
	for _, pid := range pids() {
		line := contents(fmt.Sprintf("/proc/%d/cmdline", pid))
		if _, ok := stat(pid); ok && strings.Contains(line, "native-") && strings.Contains(line, dir+"/") {
			found = append(found, pid)
		}
	}
	return found
}

// cgroups are the control groups of the cell with that data dir. The driver names them
// by the folder of its tasks.
func cgroups(t *testing.T, dir string) (found []string) {
	t.Helper()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil // it never was
	}
	h := fnv.New64a()
	h.Write([]byte(filepath.Join(real, "agent", "tasks")))
	name := fmt.Sprintf("ohm-%016x", h.Sum64())
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		matches, err := filepath.Glob(pattern + name)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matches...)
	}
	return found
}

// left lists what still stands of the tasks of the cell with that data dir.
func left(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, pid := range keepers(dir) {
		found = append(found, fmt.Sprintf("process %d: %q", pid, contents(fmt.Sprintf("/proc/%d/cmdline", pid))))
	}
	for _, root := range cgroups(t, dir) {
		// The cell's own group stays for as long as an agent does; a task's must not.
		entries, _ := os.ReadDir(root)
		for _, e := range entries {
			if e.IsDir() {
				found = append(found, "cgroup "+filepath.Join(root, e.Name()))
			}
		}
	}
	for line := range strings.Lines(contents("/proc/self/mountinfo")) {
		if strings.Contains(line, dir+"/") {
			found = append(found, "mount "+line)
		}
	}
	tasks, _ := os.ReadDir(filepath.Join(dir, "agent", "tasks"))
	for _, e := range tasks {
		found = append(found, "folder "+e.Name())
	}
	return found
}

// nothingLeft fails unless all of the cell's tasks go within ten seconds, with all that
// was theirs.
func nothingLeft(t *testing.T, dir string, tasks ...int) {
	t.Helper()
	what := []string{"not looked yet"}
	end := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(what) > 0 && time.Now().Before(end) {
		<-tick.C
		what = left(t, dir)
		for _, pid := range tasks {
			if _, ok := stat(pid); ok {
				what = append(what, fmt.Sprintf("task's process %d", pid))
			}
		}
	}
	if len(what) > 0 {
		t.Errorf("left after ten seconds:\n%s", strings.Join(what, "\n"))
	}
}

// endTasks ends whatever a test has left of the tasks of a cell: after a test that
// failed, or one that leaves them on purpose.
func endTasks(t *testing.T, dir string) {
	t.Helper()
	var doomed []int
	for todo := keepers(dir); len(todo) > 0; {
		doomed = append(doomed, todo...)
		parents := todo
		todo = nil
		for _, pid := range pids() {
			if s, ok := stat(pid); ok && slices.Contains(parents, s.parent) && !slices.Contains(doomed, pid) {
				todo = append(todo, pid)
			}
		}
	}
	for _, pid := range doomed {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
	}
	within(t, patience, "the tasks are gone", func() bool {
		return !slices.ContainsFunc(doomed, func(pid int) bool { _, ok := stat(pid); return ok })
	})
	for _, root := range cgroups(t, dir) {
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && path != root {
				_ = os.Remove(path)
				return filepath.SkipDir
			}
			return nil
		})
		_ = os.Remove(root)
	}
}
