package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/cgroup"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/logdir"
	"github.com/ohmcell/ohm/agent/driver/proc"
	"github.com/ohmcell/ohm/agent/driver/publish"
)

// Driver is the containerd driver.Driver.
type Driver struct {
	client     *client.Client
	namespace  string
	cgroupName string
	tasks      string // folder
	logs       logdir.Dir
	init       string
	conf       Config
	groups     cgroup.Groups // above those of the tasks
	boot       string
	networks   bool // a task can have one of its own
	log        *zap.Logger

	mu      sync.Mutex
	starts  map[string]context.CancelFunc // under way, by task
	ooms    map[string]*oomCount          // by task
	doubts  map[string]time.Time          // containers that containerd seems not to know, since when
	fetches map[string]chan struct{}      // of images, under way, by name; closed when over
	unkept  map[string]string             // tasks whose network nobody can keep, and why
	clean   bool                          // what is nobody's was swept

	collected time.Time // when images were last
}

var (
	_ driver.Driver = (*Driver)(nil)
	_ driver.Dialer = (*Driver)(nil)
)

// New makes a driver on what the folder and containerd hold. The daemon need not be there
// yet.
func New(c Config) (*Driver, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil { // as mounts are named
		return nil, err
	}
	name := "ohm-" + hash(dir)
	d := &Driver{
		namespace: c.Namespace, cgroupName: c.CgroupName, init: c.Init, conf: c, log: c.Log,
		tasks: filepath.Join(dir, "tasks"), logs: logdir.Dir(filepath.Join(dir, "logs")),
		starts: map[string]context.CancelFunc{}, ooms: map[string]*oomCount{}, fetches: map[string]chan struct{}{}, doubts: map[string]time.Time{},
		unkept: map[string]string{},
	}
	if d.namespace == "" {
		d.namespace = name
	}
	if d.cgroupName == "" {
		d.cgroupName = name
	}
	if d.log == nil {
		d.log = zap.NewNop()
	}
	for _, dir := range []string{d.tasks, string(d.logs)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if d.init, err = findInit(c.Init); err != nil {
		return nil, err
	}
	if d.boot, err = proc.BootID(); err != nil {
		return nil, err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	d.groups = cgroup.Detect(mountinfo, d.cgroupName).WithRest(mountinfo, d.cgroupName)
	if err := publish.Try(); err != nil {
		d.log.Info("tasks get no network of their own", zap.Error(err))
	} else {
		d.networks = true
	}
	if d.client, err = client.New(c.Address, client.WithDefaultNamespace(d.namespace), client.WithTimeout(10*time.Second)); err != nil {
		return nil, fmt.Errorf("containerd at %s: %w", c.Address, err)
	}
	return d, nil
}

// Close gives back the connection; no task is touched.
func (d *Driver) Close() error { return d.client.Close() }

// findInit looks for ohm-init where it is named, beside this program, or in PATH.
func findInit(path string) (string, error) {
	if path == "" {
		if self, err := os.Executable(); err == nil {
			path = filepath.Join(filepath.Dir(self), "ohm-init")
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			found, err := exec.LookPath("ohm-init")
			if err != nil {
				return "", fmt.Errorf("the containerd driver needs the program ohm-init beside this one or in PATH: make build makes both")
			}
			path = found
		}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return "", fmt.Errorf("ohm-init at %s: %w", path, err)
	}
	return filepath.EvalSymlinks(path)
}

// Name is containerd.
func (d *Driver) Name() string { return "containerd" }

// Capabilities are what this machine's cgroups allow, and what containerd does anywhere.
func (d *Driver) Capabilities() []string {
	can := []string{
		driver.CanNamespaces, driver.CanKill, driver.CanImage, driver.CanRegistry, driver.CanUser, driver.CanMount, driver.CanReadOnly,
		driver.CanCaps, driver.CanConfine, driver.CanContainers, driver.CanExec, driver.CanTerminal, driver.CanStats, driver.CanDevices, driver.CanProbe,
	}
	for ability, dir := range map[string]string{
		driver.CanMemory: d.groups.Memory, driver.CanCPU: d.groups.CPU, driver.CanCPUMax: d.groups.CPU, driver.CanPids: d.groups.Pids,
	} {
		if dir != "" {
			can = append(can, ability)
		}
	}
	if d.networks {
		can = append(can, driver.CanOwnNetwork)
	}
	slices.Sort(can)
	return can
}

// hash is a name of 32 characters for one of any length.
func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// folder of a task.
func (d *Driver) folder(id string) string { return filepath.Join(d.tasks, id) }

// cgroups of a task.
func (d *Driver) cgroups(id string) cgroup.Groups { return d.groups.Child(hash(id)) }

// containerID is containerd's name of a task's container, at the given try to make it.
func containerID(id, container string, try int) string {
	name := hash(id) + "-" + hash(container)[:8]
	if try > 0 {
		name += fmt.Sprintf("-%d", try)
	}
	return name
}

// Files of a task's folder.
const (
	specFile   = "spec.json"
	stateFile  = "state.json"
	exitFile   = "exit.json"
	endedFile  = "ended.json" // to become exit.json, once the logs are complete
	scratchDir = "scratch"
	reportFile = "report-" // and the container's name
)

// state is what is known of a task that was begun.
type state struct {
	Boot    string
	Tries   map[string]int `json:",omitempty"` // by container: how often it could not be made under its name
	Begun   []string       // containers whose command may have run, in order
	Started time.Time      // of the main command, or of the first container before that
	Main    bool           // the main command was started
	Pid     int            // of the main command; 0: not known
}

// begun says whether any command of the task may have run.
func (s state) begun() bool { return len(s.Begun) > 0 }

// container is containerd's name of the task's container, as it is now.
func (s state) container(id, name string) string { return containerID(id, name, s.Tries[name]) }

// readState of a task; none is the zero state.
func (d *Driver) readState(id string) (state, error) {
	st, err := folder.Read[state](filepath.Join(d.folder(id), stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return state{}, nil
	}
	return st, err
}

// DiskBytes is what the scratch folder takes, and what lies over the images.
func (d *Driver) DiskBytes(ctx context.Context, id string) (int64, error) {
	if err := folder.CheckID(id); err != nil {
		return 0, err
	}
	bytes, err := folder.Size(ctx, filepath.Join(d.folder(id), scratchDir))
	if err != nil {
		return 0, err
	}
	t, err := folder.Read[driver.Task](filepath.Join(d.folder(id), specFile))
	if errors.Is(err, fs.ErrNotExist) {
		return bytes, nil
	}
	if err != nil {
		return 0, err
	}
	names, err := d.containers(t)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		usage, err := d.client.SnapshotService(snapshotter).Usage(ctx, name)
		if err != nil && !errdefs.IsNotFound(err) {
			return 0, fmt.Errorf("ask containerd what container %s has written: %w", name, err)
		}
		bytes += usage.Size
	}
	return bytes, nil
}
