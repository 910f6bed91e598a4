package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// Files of a task's folder.
const (
	lockFile   = "lock"
	specFile   = "spec.json"
	stateFile  = "state.json"
	exitFile   = "exit.json"
	exitSpare  = "exit.spare" // room for exit.json, so that a full disk hides no exit code
	killedFile = "killed"
	graveFile  = "grave" // locked by whoever writes exit.json in the shim's place
	scratchDir = "scratch"
	shimLog    = "shim.log"
)

// spec is all that the shim and the init need to know.
type spec struct {
	ID         string
	Command    []string
	Env        []string
	Scratch    string
	Stdout     string
	Stderr     string
	Namespaces bool
	Cgroups    groups
	Limits     limits
}

// process names one process for good.
type process struct {
	Pid   int
	Start uint64 // clock ticks after boot: field 22 of /proc/<pid>/stat
}

// state is what the shim knows of a task that is not over.
type state struct {
	Boot    string // boot id of the node; pids of another one mean nothing
	Shim    process
	Init    process
	Command process // Pid 0: not started yet
	Cgroups groups
	Started time.Time
}

// exit is how a task ended.
type exit struct {
	Cause   string // task.Exited, Signalled, OOMKilled, StartFailed or UnknownExit
	Code    int    `json:",omitempty"`
	Signal  int    `json:",omitempty"`
	OOM     bool   `json:",omitempty"`
	Message string `json:",omitempty"`
	Pid     int    `json:",omitempty"`
	Started time.Time
	Ended   time.Time
}

func (e exit) observation(id string) driver.Observation {
	o := driver.Observation{
		ID: id, State: task.Failed, Cause: e.Cause, ExitCode: e.Code, Signal: e.Signal, OOM: e.OOM,
		Message: e.Message, Pid: e.Pid, Started: e.Started, Ended: e.Ended,
	}
	if e.Cause == task.Exited && e.Code == 0 {
		o.State = task.Succeeded
	}
	return o
}

// checkID refuses what cannot be one file name.
func checkID(id string) error {
	if id == "" || len(id) > 240 || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\x00") {
		return fmt.Errorf("task id %q cannot be a file name", id)
	}
	return nil
}

// lock takes the lock of a task's folder without waiting. held says that somebody else
// has it. Whoever makes the folder takes it exclusively and gives it on to the shim;
// everybody else only looks, and shares it.
func lock(dir string, how int) (f *os.File, held bool, err error) {
	f, err = os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, true, nil
		}
		return nil, false, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, false, nil
}

// alive says whether the folder's task has a starter or a shim.
func alive(dir string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, lockFile)); err != nil {
		return false, err // never make one here
	}
	f, held, err := lock(dir, unix.LOCK_SH)
	if f != nil {
		f.Close()
	}
	return held, err
}

// now is the time as it comes back from a file.
func now() time.Time { return time.Now().UTC().Round(0) }

func read[T any](path string) (v T, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}

// write replaces a file as a whole and for good.
func write(path string, v any) error {
	return replace(path, path+".new", v)
}

// writeExit is write for exit.json, into the room that reserveExit took.
func writeExit(dir string, e exit) error {
	return replace(filepath.Join(dir, exitFile), filepath.Join(dir, exitSpare), e)
}

func reserveExit(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, exitSpare), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.Fallocate(int(f.Fd()), 0, 0, 4096)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

func replace(path, draft string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Folders in the making and in the unmaking, beside those of the tasks.
const (
	draftPrefix = ".draft-"
	gonePrefix  = ".gone-"
)

// sweepDrafts removes what starts and removals left that were cut short.
func (d *Driver) sweepDrafts() error {
	entries, err := os.ReadDir(d.tasks)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(d.tasks, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), gonePrefix):
		case strings.HasPrefix(e.Name(), draftPrefix):
			info, err := e.Info()
			if err != nil || time.Since(info.ModTime()) < time.Minute {
				continue // it may not have its lock yet
			}
			if held, err := alive(path); held || err != nil && !errors.Is(err, fs.ErrNotExist) {
				continue
			}
		default:
			continue
		}
		if err := discard(path); err != nil {
			return err
		}
	}
	return nil
}

// discard removes a folder and never what is mounted in it.
func discard(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(unescape(f[4]), dir+"/") {
			points = append(points, unescape(f[4]))
		}
	}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return os.RemoveAll(dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
