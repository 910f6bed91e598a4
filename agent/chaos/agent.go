package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/agent"
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/containerd"
	"github.com/ohmcell/ohm/agent/driver/native"
)

// Agent is one node's agent, to be a process that is killed.
type Agent struct {
	Name       string
	Dir        string
	Cgroup     string // of its tasks, unique on the machine
	Namespace  string // in containerd
	Address    string // of the server
	Containerd string // socket; empty: the native driver
	Init       string // ohm-init
	Image      string // of all tasks of the containerd driver
	Notes      string // folder that they share with the node
	Log        *zap.Logger
}

// Run is the agent until ctx ends.
func (a Agent) Run(ctx context.Context) (err error) {
	journal := filepath.Join(a.Dir, "journal")
	if err := os.MkdirAll(journal, 0o700); err != nil {
		return err
	}
	unlock, err := agent.LockFolder(a.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	conn, err := grpc.NewClient(a.Address, append(agent.DialOptions(0), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	d, err := a.driver()
	if err != nil {
		return err
	}
	facts, err := agent.Facts(agent.FactsConfig{Name: a.Name, DataDir: a.Dir})
	if err != nil {
		return err
	}
	facts.Capacity.CpuMilli, facts.Capacity.MemoryBytes = 8000, 16<<30 // the tasks hardly use any of it
	return agent.New(agent.Config{Node: facts, Driver: d, Conn: conn, Dir: journal, Log: a.Log}).Run(ctx)
}

func (a Agent) driver() (driver.Driver, error) {
	if a.Containerd == "" {
		return native.New(native.Config{Dir: a.Dir, CgroupName: a.Cgroup, Log: a.Log})
	}
	d, err := containerd.New(containerd.Config{
		Dir: a.Dir, Address: a.Containerd, Namespace: a.Namespace, CgroupName: a.Cgroup, Init: a.Init, Log: a.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("containerd driver: %w", err)
	}
	return boxed{d, a}, nil
}

// boxed puts every task into the image, with the notes at the same path as on the node. So it
// can do what it is for with tasks that name no image, which the cell is told.
type boxed struct {
	driver.Driver
	agent Agent
}

func (b boxed) Capabilities() []string {
	can := append(slices.Clone(b.Driver.Capabilities()), driver.CanHostRoot)
	slices.Sort(can)
	return can
}

func (b boxed) Start(ctx context.Context, t driver.Task) error {
	box := func(of *driver.Box) {
		of.Image = b.agent.Image
		of.Mounts = append(of.Mounts, driver.Mount{Source: b.agent.Notes, Target: b.agent.Notes})
	}
	if t.Containers = slices.Clone(t.Containers); len(t.Containers) == 0 {
		box(&t.Box)
	}
	for i := range t.Containers {
		box(&t.Containers[i].Box)
	}
	return b.Driver.Start(ctx, t)
}
