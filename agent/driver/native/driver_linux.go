package native

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/logdir"
	"github.com/ohmcell/ohm/agent/driver/native/image"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// defaultImageBytes is what images may take that no task uses, and what one layer may.
const defaultImageBytes = 20 << 30

// Driver is the native driver.Driver.
type Driver struct {
	tasks      string // folder
	logs       logdir.Dir
	logLimits  segment.Limits
	executable string
	images     *image.Store
	imageBytes int64
	groups     cgroup.Groups // above those of the tasks
	namespaces bool
	networks   bool // a task can have one of its own
	boot       string
	log        *zap.Logger

	mu      sync.Mutex
	shims   map[int]string                // our own children, to be reaped: pid to task id
	watches []*watch                      // that are running
	starts  map[string]context.CancelFunc // that wait for an image, by task
}

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Dialer = (*Driver)(nil)
)

// New makes a driver on what the folder holds, and finds out what the machine allows.
func New(c Config) (*Driver, error) {
	if os.Getenv(reexecuted) != "" {
		return nil, errors.New("this program is to call native.Main before it makes a driver")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		tasks:      filepath.Join(dir, "tasks"),
		logs:       logdir.Dir(filepath.Join(dir, "logs")),
		logLimits:  c.Logs,
		executable: c.Executable,
		log:        c.Log,
		shims:      map[int]string{},
		starts:     map[string]context.CancelFunc{},
	}
	if d.executable == "" {
		d.executable = "/proc/self/exe"
	}
	if d.log == nil {
		d.log = zap.NewNop()
	}
	if d.boot, err = proc.BootID(); err != nil {
		return nil, err
	}
	for _, dir := range []string{d.tasks, string(d.logs)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	// As the kernel names them: mounts below are looked for by name.
	if d.tasks, err = filepath.EvalSymlinks(d.tasks); err != nil {
		return nil, err
	}
	logs, err := filepath.EvalSymlinks(string(d.logs))
	if err != nil {
		return nil, err
	}
	d.logs = logdir.Dir(logs)
	if err := folder.Sweep(d.tasks); err != nil {
		return nil, err
	}
	if d.imageBytes = c.ImageBytes; d.imageBytes == 0 {
		d.imageBytes = defaultImageBytes
	}
	if d.images, err = image.Open(filepath.Join(dir, "images"), d.imageBytes, c.RegistryAuth); err != nil {
		return nil, err
	}
	if c.CgroupName == "" {
		h := fnv.New64a()
		h.Write([]byte(d.tasks))
		c.CgroupName = fmt.Sprintf("ohm-%016x", h.Sum64())
	}
	if err := d.sweepImages(); err != nil {
		d.log.Warn("images cannot be removed", zap.Error(err))
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	d.groups = cgroup.Detect(mountinfo, c.CgroupName)
	if err := d.sweepGroups(); err != nil {
		d.log.Warn("cgroups that are no task's cannot be given back", zap.Error(err))
	}
	if err := d.probe(namespaces); err != nil {
		d.log.Info("tasks get no namespaces", zap.Error(err))
	} else {
		d.namespaces = true
		if err := d.probe(namespaces | unix.CLONE_NEWNET); err != nil {
			d.log.Info("tasks get no network of their own", zap.Error(err))
		} else {
			d.networks = true
		}
	}
	return d, nil
}

// probe tries whether a process can be started in namespaces of its own.
func (d *Driver) probe(flags uintptr) error {
	var why strings.Builder
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		w.Close()
		return err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(d.executable, []string{"ohm", verbProbe}, &syscall.ProcAttr{
		Env: []string{reexecuted + "=1"}, Files: []uintptr{null.Fd(), null.Fd(), w.Fd()},
		Sys: &syscall.SysProcAttr{Cloneflags: flags},
	})
	w.Close()
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		why.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if status := reap(pid); status != 0 {
		return fmt.Errorf("try namespaces: %s (status %d)", strings.TrimSpace(why.String()), status)
	}
	return nil
}

// Name is native.
func (d *Driver) Name() string { return "native" }

// Capabilities are what the machine was found to allow, sorted.
func (d *Driver) Capabilities() []string {
	has := map[string]bool{
		driver.CanHostRoot:   true,
		driver.CanContainers: true,
		driver.CanUser:       d.namespaces,
		driver.CanMount:      d.namespaces,
		driver.CanReadOnly:   d.namespaces,
		driver.CanCaps:       d.namespaces,
		driver.CanConfine:    d.namespaces,
		driver.CanImage:      d.namespaces,
		driver.CanRegistry:   d.namespaces,
		driver.CanExec:       true,
		driver.CanProbe:      true,
		driver.CanOwnNetwork: d.namespaces && d.networks,
		driver.CanTerminal:   true,
		driver.CanNamespaces: d.namespaces,
		driver.CanMemory:     d.groups.Memory != "",
		driver.CanCPU:        d.groups.CPU != "",
		driver.CanCPUMax:     d.groups.CPU != "",
		driver.CanPids:       d.groups.Pids != "",
		driver.CanKill:       d.groups.Unified != "" || d.groups.Freezer != "",
		driver.CanDevices:    d.namespaces,
		driver.CanStats:      d.groups.Memory != "" && d.groups.CPU != "",
	}
	maps.DeleteFunc(has, func(_ string, yes bool) bool { return !yes })
	return slices.Sorted(maps.Keys(has))
}

// folder of a task.
func (d *Driver) folder(id string) string { return filepath.Join(d.tasks, id) }
