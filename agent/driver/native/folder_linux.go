package native

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/pkg/task"
)

// Files of a task's folder.
const (
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
	Cgroups    cgroup.Groups
	Limits     cgroup.Limits
	Box        driver.Box
	Root       root // no layers: the node's own
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
	Cgroups cgroup.Groups
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

// now is the time as it comes back from a file.
func now() time.Time { return time.Now().UTC().Round(0) }

// writeExit is write for exit.json, into the room that reserveExit took.
func writeExit(dir string, e exit) error {
	return folder.Replace(filepath.Join(dir, exitFile), filepath.Join(dir, exitSpare), e)
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
			if held, err := folder.Held(path); held || err != nil && !errors.Is(err, fs.ErrNotExist) {
				continue
			}
		default:
			continue
		}
		if err := folder.Discard(path); err != nil {
			return err
		}
	}
	return nil
}
