package native

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// Files of a task's folder.
const (
	specFile   = "spec.json"
	stateFile  = "state.json"
	exitFile   = "exit.json"
	exitSpare  = "exit.spare" // room for exit.json, so that a full disk hides no exit code
	graveFile  = "grave"      // locked by whoever writes exit.json in the shim's place
	scratchDir = "scratch"
	shimLog    = "shim.log"
)

// spec is all that the shim and the init need to know.
type spec struct {
	ID      string
	program           // the main one, which a plain task has alone
	Before  []program // what starts before it, in order

	Scratch    string
	Logs       string // folder
	LogLimits  segment.Limits
	Namespaces bool
	OwnNetwork bool // goes with Namespaces
	Publish    []int32
	Cgroups    cgroup.Groups
	Limits     cgroup.Limits
	// Task is there until the images of a task that has any are: Root, and what an image may
	// say in the task's place, are not known before.
	Task *driver.Task `json:",omitempty"`
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
	Started time.Time // of the main command, or of the first one before that
	Before  []member  `json:",omitempty"` // of the containers before the main one those that were started
}

// member is a container of a task that was started.
type member struct {
	Name          string
	Init, Command process
}

// begun says whether any command of the task was started.
func (st state) begun() bool { return !st.Started.IsZero() }

// inits are those of all containers that were started.
func (st state) inits() (list []process) {
	for _, m := range st.Before {
		list = append(list, m.Init)
	}
	if st.Init.Pid != 0 {
		list = append(list, st.Init)
	}
	return list
}

// command is that of a container, if it was started; empty: of the main one.
func (st state) command(sp spec, name string) (command process, ok bool) {
	if name == "" || name == sp.name() {
		return st.Command, st.Command.Pid != 0
	}
	for _, m := range st.Before {
		if m.Name == name {
			return m.Command, true
		}
	}
	return process{}, false
}

// writeExit is write for exit.json, into the room that reserveExit took.
func writeExit(dir string, e folder.Exit) error {
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

// draft makes a folder, locked. The gate, which is the folder of all tasks, is shared until
// it has its lock.
func (d *Driver) draft() (path string, held *os.File, err error) {
	gate, err := d.gate(unix.LOCK_SH)
	if err != nil {
		return "", nil, err
	}
	defer gate.Close()
	if path, err = os.MkdirTemp(d.tasks, draftPrefix); err != nil {
		return "", nil, err
	}
	held, taken, err := folder.Lock(path, unix.LOCK_EX)
	if err = errors.Join(err, errIf(taken, "the draft is locked")); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(path))
	}
	return path, held, nil
}

// sweepDrafts removes what starts and removals left that were cut short: with the gate shut,
// a draft that nobody holds is nobody's. While a start is under way the sweep waits for the
// next one.
func (d *Driver) sweepDrafts() error {
	gate, err := d.gate(unix.LOCK_EX | unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer gate.Close()
	entries, err := os.ReadDir(d.tasks)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(d.tasks, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), gonePrefix):
		case strings.HasPrefix(e.Name(), draftPrefix):
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

// sweepGroups ends what is in cgroups of this driver of which no task has a folder, and gives
// them back: somebody has removed the folder. One that starts has its folder before its
// cgroups, and one that is removed has it after them.
func (d *Driver) sweepGroups() error {
	var errs []error
	for _, name := range d.groups.Names() {
		if folder.Exists(d.folder(name)) || cgroup.IsProbe(name) {
			continue
		}
		d.log.Info("a cgroup of no task is given back", zap.String("cgroup", name))
		ctx, cancel := context.WithTimeout(context.Background(), buryTimeout)
		g := d.groups.Child(name)
		errs = append(errs, g.Kill(ctx), g.Remove())
		cancel()
	}
	return errors.Join(errs...)
}

// gate locks the folder of all tasks itself, until it is closed.
func (d *Driver) gate(how int) (*os.File, error) {
	f, err := os.Open(d.tasks)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", d.tasks, err)
	}
	return f, nil
}
