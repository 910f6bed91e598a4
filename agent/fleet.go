package agent

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/agent/driver"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Fleet is many simulated nodes in one process, each with an agent of its own, over one
// connection. They keep no journal: what they run is gone with the process.
type Fleet struct {
	Nodes  []*ohmv1.Node
	Driver func(*ohmv1.Node) driver.Driver // a hollow one for each node
	Conn   grpc.ClientConnInterface
	Log    *zap.Logger
	// Settings are the agents' times and counts; node, driver and connection are set here.
	Settings Config
}

// stagger is the pause between two agents' first words, so that thousands of them do not
// say hello at once.
const stagger = 200 * time.Microsecond

// Run runs the agents until ctx ends, and then returns nil.
func (f Fleet) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for i, facts := range f.Nodes {
		c := f.Settings
		c.Node = proto.CloneOf(facts)
		c.Node.Attributes = maps.Clone(facts.GetAttributes())
		if c.Node.Attributes == nil {
			c.Node.Attributes = map[string]string{}
		}
		c.Node.Attributes["hollow"] = "true"
		if c.Node.DynamicPorts == nil {
			c.Node.DynamicPorts = usualPorts(0, 0)
		}
		c.Driver, c.Conn, c.Log, c.Dir = f.Driver(c.Node), f.Conn, f.Log, ""
		if c.Resync <= 0 {
			c.Resync = time.Minute // nothing happens there that the driver does not tell
		}
		if c.KeepLogs <= 0 {
			c.KeepLogs, c.KeepExpired = 10, 10 // they all say the same
		}
		g.Go(func() error {
			pause(ctx, time.Duration(i)*stagger)
			return New(c).Run(ctx)
		})
	}
	return g.Wait()
}
