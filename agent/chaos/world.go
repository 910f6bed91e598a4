package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/containerd/containerdtest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// node is one node and its agent's present process.
type node struct {
	name       string
	dir        string
	cgroup     string
	namespace  string // of containerd
	containerd bool

	mu      sync.Mutex // held while the agent is killed and started
	process *process
}

// world is the processes of a run.
type world struct {
	Config
	image, notes string
	address      string
	conn         *grpc.ClientConn
	peaceful     []*process // the server, the schedulers
	nodes        []*node

	mu     sync.Mutex // held while the daemon is killed and started
	daemon *containerdtest.Daemon
}

// newWorld starts everything.
func newWorld(ctx context.Context, c Config, image, notes string) (w *world, err error) {
	w = &world{Config: c, image: image, notes: notes}
	defer func() {
		if err != nil {
			w.end()
		}
	}()
	ctdDir := filepath.Join(c.Dir, "ctd")
	if err := os.Mkdir(ctdDir, 0o700); err != nil {
		return w, err
	}
	if w.daemon, err = containerdtest.New(ctdDir); err != nil {
		return w, err
	}
	if err = w.daemon.Start(); err != nil {
		return w, err
	}
	server, lines, err := launch(c.Dir, "server", c.Ohm, "server", "--embedded-etcd", "--data-dir", filepath.Join(c.Dir, "store"), "--address", "127.0.0.1:0")
	if err != nil {
		return w, err
	}
	w.peaceful = append(w.peaceful, server)
	etcd, err := word(lines, "server", "etcd")
	if err != nil {
		return w, err
	}
	if w.address, err = word(lines, "server", "ready"); err != nil {
		return w, err
	}
	schedulers, _, err := launch(c.Dir, "schedulers", c.Ohm, "scheduler", "--policy", "batch,service", "--etcd", etcd, "--data-dir", filepath.Join(c.Dir, "schedulers"))
	if err != nil {
		return w, err
	}
	w.peaceful = append(w.peaceful, schedulers)
	if w.conn, err = grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.WaitForReady(true))); err != nil {
		return w, err
	}
	for _, name := range []string{"native-1", "native-2", "containerd-1", "containerd-2"} {
		n := &node{
			name: name, dir: filepath.Join(c.Dir, name), containerd: name[0] == 'c',
			cgroup: fmt.Sprintf("ohm-chaos-%d-%s", os.Getpid(), name), namespace: fmt.Sprintf("chaos-%d-%s", os.Getpid(), name),
		}
		w.nodes = append(w.nodes, n)
		if err := w.start(n); err != nil {
			return w, err
		}
	}
	return w, until(ctx, time.Minute, func() error {
		list, err := ohmv1.NewNodesClient(w.conn).List(ctx, &ohmv1.ListNodesRequest{})
		if err == nil && len(list.GetNodes()) < len(w.nodes) {
			err = fmt.Errorf("%d nodes have come", len(list.GetNodes()))
		}
		return err
	})
}

// whole fails if a process that nobody kills has ended.
func (w *world) whole() error {
	for _, p := range w.peaceful {
		if p.alone() {
			return fmt.Errorf("%s ended by itself; its log says why", p.name)
		}
	}
	return nil
}

// start starts a node's agent.
func (w *world) start(n *node) (err error) {
	args := []string{
		"agent", "-name", n.name, "-dir", n.dir, "-cgroup", n.cgroup, "-namespace", n.namespace, "-address", w.address,
		"-init", filepath.Join(filepath.Dir(w.Ohm), "ohm-init"), "-image", w.image, "-notes", w.notes,
	}
	if n.containerd {
		args = append(args, "-containerd", w.daemon.Socket())
	}
	n.process, _, err = launch(w.Dir, n.name, w.Program, args...)
	return err
}

// killAgent kills a node's agent, and starts it again after a pause.
func (w *world) killAgent(ctx context.Context, n *node, down time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	alone := n.process.alone()
	n.process.kill()
	_ = driver.Pause(ctx, down) // the end of ctx ends it early: the agent is to be there again all the same
	err := w.start(n)
	if alone {
		err = errors.Join(err, fmt.Errorf("the agent of %s had ended by itself; its log says why", n.name))
	}
	return err
}

// killDaemon kills containerd, and starts it again after a pause.
func (w *world) killDaemon(ctx context.Context, down time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.daemon.End(syscall.SIGKILL)
	_ = driver.Pause(ctx, down)
	return w.daemon.Launch()
}

// restAgents ends the agents in an orderly way.
func (w *world) restAgents() (alone []string) {
	for _, n := range w.nodes {
		n.mu.Lock()
		if n.process != nil {
			if n.process.alone() {
				alone = append(alone, n.name)
			}
			n.process.end()
		}
		n.mu.Unlock()
	}
	return alone
}

// end ends all processes, and whatever of a task is left; that it tells.
func (w *world) end() (left []string) {
	for _, name := range w.restAgents() {
		left = append(left, "the agent of "+name+" had ended by itself")
	}
	left = append(left, w.leaks()...)
	if err := w.whole(); err != nil {
		left = append(left, err.Error())
	}
	for _, p := range w.peaceful {
		p.end()
	}
	if w.conn != nil {
		w.conn.Close()
	}
	if w.daemon != nil {
		w.daemon.End(syscall.SIGTERM)
		for _, n := range w.nodes {
			_ = os.Remove(filepath.Join("/run/containerd/runc", n.namespace)) // empty, or told as a leak
		}
		for _, m := range w.daemon.Mounts() {
			left = append(left, "mount "+m)
		}
	}
	return left
}
