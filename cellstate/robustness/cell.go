package robustness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/ohmcell/ohm/agent"
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/hollow"
	"github.com/ohmcell/ohm/cellstate/robustness/relay"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// cell is the parts of a cell over an etcd: schedulers and servers as processes, each behind
// a relay of its own, and hollow nodes in this process.
type cell struct {
	program, dir string
	limits       Limits
	etcd         *etcd
	parts        []*part
	conn         *grpc.ClientConn // to the servers
	drivers      map[string]*hollow.Driver
	nodes        []*ohmv1.Node
}

// part is a scheduler or a server.
type part struct {
	instance string
	args     []string
	relay    *relay.Relay
	process  *process
	lives    int
}

// The cell's size: small and crowded, so that claims collide.
const (
	nodes       = 8
	nodeCPU     = 4000
	nodeMemory  = 8 << 30
	serverCount = 2
)

func (p *part) isScheduler() bool { return !strings.HasPrefix(p.instance, "server") }

func newCell(program, dir string, limits Limits, e *etcd) (*cell, error) {
	c := &cell{program: program, dir: dir, limits: limits, etcd: e, drivers: map[string]*hollow.Driver{}}
	add := func(instance string, args ...string) error {
		r, err := relay.New(e.endpoints())
		if err != nil {
			return err
		}
		c.parts = append(c.parts, &part{instance: instance, args: args, relay: r})
		return nil
	}
	addresses, err := freePorts(serverCount)
	if err != nil {
		return c, err
	}
	var servers []resolver.Address
	for i, a := range addresses {
		if err := add(fmt.Sprintf("server-%d", i), "-address", a); err != nil {
			return c, err
		}
		servers = append(servers, resolver.Address{Addr: a})
	}
	for _, s := range []string{"batch-0", "batch-1", "service-0", "ml-0", "press-0", "slow-0"} {
		policy, _, _ := strings.Cut(s, "-")
		if err := add(s, "-policy", policy); err != nil {
			return c, err
		}
	}
	for _, p := range c.parts {
		if err := c.start(p); err != nil {
			return c, err
		}
	}
	static := manual.NewBuilderWithScheme("servers")
	static.InitialState(resolver.State{Addresses: servers})
	c.conn, err = grpc.NewClient("servers:///cell", append(agent.DialOptions(0), grpc.WithResolvers(static), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	for i := range nodes {
		n := &ohmv1.Node{Name: fmt.Sprintf("node-%d", i), Capacity: &ohmv1.Resources{CpuMilli: nodeCPU, MemoryBytes: nodeMemory, DiskBytes: 100 << 30}}
		c.nodes = append(c.nodes, n)
		c.drivers[n.GetName()] = hollow.New()
	}
	return c, err
}

// start starts a part, or its successor.
func (c *cell) start(p *part) (err error) {
	name := fmt.Sprintf("%s.%d", p.instance, p.lives)
	p.lives++
	p.process, err = start(c.program, c.dir, p.instance, append([]string{"part", "-name", name, "-instance", p.instance,
		"-etcd", strings.Join(p.relay.Endpoints(), ","), "-history", filepath.Join(c.dir, name+".history"),
		"-txn-ops", fmt.Sprint(c.limits.TxnOps), "-request-bytes", fmt.Sprint(c.limits.RequestBytes)}, p.args...)...)
	return err
}

// run runs the nodes until ctx ends.
func (c *cell) run(ctx context.Context) error {
	return agent.Fleet{
		Nodes: c.nodes, Conn: c.conn, Log: zap.NewNop(),
		Driver: func(n *ohmv1.Node) driver.Driver { return c.drivers[n.GetName()] },
	}.Run(ctx)
}

// close ends all parts. It says which had ended before.
func (c *cell) close() error {
	var errs []error
	if c.conn != nil {
		errs = append(errs, c.conn.Close())
	}
	for _, p := range c.parts {
		if p.process != nil {
			errs = append(errs, p.process.alive(), p.process.kill())
		}
		errs = append(errs, p.relay.Close())
	}
	return errors.Join(errs...)
}

// counts sums up what went through all relays.
func (c *cell) counts() (all relay.Counts) {
	for _, p := range c.parts {
		n := p.relay.Counts()
		all.Txns, all.Lost, all.Failed = all.Txns+n.Txns, all.Lost+n.Lost, all.Failed+n.Failed
		all.Resolved, all.Compacted = all.Resolved+n.Resolved, all.Compacted+n.Compacted
	}
	return all
}
