package folder

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// Exit is how a task ended, as it is kept in its folder.
type Exit struct {
	Cause   string // one of pkg/task
	Code    int    `json:",omitempty"`
	Signal  int    `json:",omitempty"`
	OOM     bool   `json:",omitempty"`
	Message string `json:",omitempty"`
	Pid     int    `json:",omitempty"`
	Peak    int64  `json:",omitempty"` // bytes of memory
	Limit   int64  `json:",omitempty"` // bytes of memory
	Started time.Time
	Ended   time.Time
}

// Observation is what is seen of the task that ended so.
func (e Exit) Observation(id string) driver.Observation {
	o := driver.Observation{
		ID: id, State: task.Failed, Cause: e.Cause, ExitCode: e.Code, Signal: e.Signal, OOM: e.OOM,
		Message: e.Message, Pid: e.Pid, Started: e.Started, Ended: e.Ended,
		MemoryPeak: e.Peak, MemoryLimit: e.Limit,
	}
	if e.Cause == task.Exited && e.Code == 0 {
		o.State = task.Succeeded
	}
	return o
}

// Now is the time as it comes back from a file.
func Now() time.Time { return time.Now().UTC().Round(0) }

// IDs of all tasks that have a folder in dir, sorted. Names with a dot in front are of
// folders in the making and in the unmaking.
func IDs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && e.IsDir() {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// killedFile is there once the driver kills the folder's task.
const killedFile = "killed"

// MarkKilled says in a task's folder that the driver is killing it. The error is
// fs.ErrNotExist if there is no such folder.
func MarkKilled(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, killedFile), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// Killed says whether the driver is killing the folder's task, or has.
func Killed(dir string) bool { return Exists(filepath.Join(dir, killedFile)) }
