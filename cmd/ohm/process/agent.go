package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/agent"
	"github.com/ohmcell/ohm/agent/device"
	"github.com/ohmcell/ohm/agent/device/nvidia"
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/containerd"
	"github.com/ohmcell/ohm/agent/driver/hollow"
	"github.com/ohmcell/ohm/agent/driver/native"
	"github.com/ohmcell/ohm/agent/driver/registry"
	"github.com/ohmcell/ohm/agent/driver/segment"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Runtime says what runs the node's tasks.
type Runtime struct {
	Driver     string         // one of Drivers
	Containerd string         // address of its socket, for the driver of that name
	Logs       segment.Limits // of each of a task's two streams

	// RegistryAuth is a file with credentials for registries of images.
	RegistryAuth registry.Auth

	// GPUs are the node's, id=model or id=model@memory each; or where they are found while the agent runs:
	// nvidia, file:PATH, none. Nothing: nvidia's, where there are any.
	GPUs     []string
	GPUCodes []string // what faults mean, code=ignore, code=bad or code=lost each
}

// devices are those that were named, or a source of them.
func (r Runtime) devices() (named []*ohmv1.Device, found device.Source, err error) {
	path, isFile := strings.CutPrefix(strings.Join(r.GPUs, ","), "file:")
	switch {
	case len(r.GPUs) == 0:
		if s, ok := nvidia.Find(); ok {
			found = s
		}
		return nil, found, nil
	case slices.Equal(r.GPUs, []string{"none"}):
		return nil, nil, nil
	case slices.Equal(r.GPUs, []string{"nvidia"}):
		s, _ := nvidia.Find() // what is not there yet may come
		return nil, s, nil
	case isFile:
		return nil, device.File(path), nil
	}
	named, err = device.Parse(r.GPUs)
	return named, nil, err
}

// Drivers are the names of the built-in drivers that run real tasks, the usual one first.
func Drivers() []string { return []string{"native", "containerd"} }

// open makes the driver; what it keeps is below dir.
func (r Runtime) open(dir string, log *zap.Logger) (d driver.Driver, closing func() error, err error) {
	if err := r.RegistryAuth.Check(); err != nil {
		return nil, nil, err
	}
	switch r.Driver {
	case "", "native":
		d, err := native.New(native.Config{Dir: dir, Logs: r.Logs, Log: log, RegistryAuth: r.RegistryAuth})
		return d, func() error { return nil }, err
	case "containerd":
		d, err := containerd.New(containerd.Config{
			Dir: filepath.Join(dir, "containerd"), Address: r.Containerd, Logs: r.Logs, Log: log, RegistryAuth: r.RegistryAuth,
		})
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	}
	return nil, nil, fmt.Errorf("there is no driver %q: %s", r.Driver, strings.Join(Drivers(), ", "))
}

// Agent is an agent process: this machine as a node.
type Agent struct {
	Runtime Runtime
	Conn    grpc.ClientConnInterface // to a server
	DataDir string
	Facts   agent.FactsConfig
	Times   agent.Config // times and counts only
	Log     *zap.Logger
	// Left is called at the end with the number of tasks that go on without the agent.
	Left func(tasks int)
}

// Run keeps the node's tasks as the cell wants them until ctx ends, and leaves them.
func (a Agent) Run(ctx context.Context) error {
	dir := filepath.Join(a.DataDir, "agent")
	if err := os.MkdirAll(filepath.Join(dir, "journal"), 0o700); err != nil {
		return err
	}
	unlock, err := agent.LockFolder(dir)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // nothing was written to it
	d, closeDriver, err := a.Runtime.open(dir, a.Log)
	if err != nil {
		return err
	}
	defer func() { _ = closeDriver() }() // what it holds goes with this process
	a.Facts.DataDir = dir
	facts, err := agent.Facts(a.Facts)
	if err != nil {
		return err
	}
	conf := a.Times
	if facts.Gpus, conf.Devices, err = a.Runtime.devices(); err != nil {
		return err
	}
	if conf.Codes, err = device.ParsePolicy(nvidia.Codes(), a.Runtime.GPUCodes); err != nil {
		return err
	}
	conf.Node, conf.Driver, conf.Conn, conf.Dir, conf.Log = facts, d, a.Conn, filepath.Join(dir, "journal"), a.Log
	conf.DiskPath = dir
	conf.PortBusy = agent.PortBusy
	if err := agent.New(conf).Run(ctx); err != nil {
		return err
	}
	if a.Left != nil {
		a.Left(alive(context.WithoutCancel(ctx), d))
	}
	return nil
}

// lastLook is how long the driver may take to say what is left running.
const lastLook = 5 * time.Second

// alive counts the tasks that still run.
func alive(ctx context.Context, d driver.Driver) int {
	ctx, cancel := context.WithTimeout(ctx, lastLook)
	defer cancel()
	tasks, err := d.List(ctx)
	if err != nil {
		return 0
	}
	n := 0
	for _, t := range tasks {
		if !task.Ended(t.State) {
			n++
		}
	}
	return n
}

// HollowNodes are n simulated nodes of one common shape.
func HollowNodes(n int) []*ohmv1.Node {
	nodes := make([]*ohmv1.Node, n)
	for i := range nodes {
		nodes[i] = &ohmv1.Node{
			Name:     fmt.Sprintf("hollow-%05d", i),
			Capacity: &ohmv1.Resources{CpuMilli: 64_000, MemoryBytes: 256 << 30, DiskBytes: 1 << 40},
		}
	}
	return nodes
}

// Fleet runs simulated nodes until ctx ends. reconnect is the longest pause between two tries
// of one to reach a server; 0: the agent's default.
func Fleet(ctx context.Context, nodes []*ohmv1.Node, conn grpc.ClientConnInterface, reconnect time.Duration, log *zap.Logger) error {
	RelaxCollector()
	return agent.Fleet{
		Nodes: nodes, Conn: conn, Log: log, Settings: agent.Config{Backoff: reconnect},
		Driver: func(*ohmv1.Node) driver.Driver { return hollow.New() },
	}.Run(ctx)
}
