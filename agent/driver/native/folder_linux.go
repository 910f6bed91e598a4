package native

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
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

// state is what the shim knows of a task that is not over.
type state struct {
	Boot    string // boot id of the node; pids of another one mean nothing
	Shim    proc.Process
	Init    proc.Process
	Command proc.Process // Pid 0: not started yet
	Cgroups cgroup.Groups
	Started time.Time // of the main command, or of the first one before that
	Before  []member  `json:",omitempty"` // of the containers before the main one those that were started
}

// member is a container of a task that was started.
type member struct {
	Name          string
	Init, Command proc.Process
}

// begun says whether any command of the task was started.
func (st state) begun() bool { return !st.Started.IsZero() }

// inits are those of all containers that were started.
func (st state) inits() (list []proc.Process) {
	for _, m := range st.Before {
		list = append(list, m.Init)
	}
	if st.Init.Pid != 0 {
		list = append(list, st.Init)
	}
	return list
}

// command is that of a container, if it was started; empty: of the main one.
func (st state) command(sp spec, name string) (command proc.Process, ok bool) {
	if name == "" || name == sp.name() {
		return st.Command, st.Command.Pid != 0
	}
	for _, m := range st.Before {
		if m.Name == name {
			return m.Command, true
		}
	}
	return proc.Process{}, false
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
