package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/agent"
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/lifecycle"
)

// Dev is a whole cell in one process: an etcd of its own, a server, the schedulers, each
// as if alone, and this machine as a node.
type Dev struct {
	DataDir   string
	Listen    Listen
	Policies  []string
	Hollow    int // simulated nodes beside this machine
	Cell      string
	Version   string
	Facts     agent.FactsConfig
	Runtime   Runtime
	AgentTime agent.Config
	Server    Server // limits only
	Log       *zap.Logger
	Dial      func(address string) (*grpc.ClientConn, error)
	Ready     func(address string) // a job can be run now
	Left      func(tasks int)
}

// up is what the other parts need of a server that is up.
type up struct {
	address string
	store   Store
	mirror  *mirror.Mirror
}

// Run runs the cell until ctx ends.
func (d Dev) Run(ctx context.Context) error {
	if err := os.MkdirAll(d.DataDir, 0o700); err != nil {
		return fmt.Errorf("data dir: %w", err)
	}
	serverUp := make(chan struct{})
	var cell up
	// after runs a part once the server is up.
	after := func(run func(ctx context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-serverUp:
				return run(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	}
	srv := d.Server
	srv.Embedded, srv.DataDir, srv.Listen, srv.Name = true, filepath.Join(d.DataDir, "store"), d.Listen, "dev"
	srv.Store.Cell, srv.Version, srv.CheckEvery, srv.Log = d.Cell, d.Version, mirror.DefaultCheck, d.Log
	srv.Ready = func(_ context.Context, address string, store Store, m *mirror.Mirror) {
		cell = up{address, store, m}
		close(serverUp)
	}
	parts := []lifecycle.Part{
		{Name: "server", Run: srv.Run},
		{Name: "schedulers", Run: after(func(ctx context.Context) error {
			return Scheduler{Store: cell.store, Policies: d.Policies, Instance: "dev", Version: d.Version, CheckEvery: mirror.DefaultCheck, Log: d.Log}.Run(ctx)
		})},
		{Name: "agent", Run: after(func(ctx context.Context) error {
			return d.withConn(cell.address, func(conn *grpc.ClientConn) error {
				return Agent{Runtime: d.Runtime, Conn: conn, DataDir: d.DataDir, Facts: d.Facts, Times: d.AgentTime, Log: d.Log.Named("agent"), Left: d.Left}.Run(ctx)
			})
		})},
	}
	if d.Hollow > 0 {
		parts = append(parts, lifecycle.Part{Name: "hollow nodes", Run: after(func(ctx context.Context) error {
			return d.withConn(cell.address, func(conn *grpc.ClientConn) error {
				return Fleet(ctx, HollowNodes(d.Hollow), conn, 0, d.Log.Named("hollow"))
			})
		})})
	}
	parts = append(parts, lifecycle.Part{Name: "ready", Run: after(func(ctx context.Context) error {
		if err := d.complete(ctx, cell.mirror); err == nil && d.Ready != nil {
			d.Ready(cell.address)
		}
		<-ctx.Done()
		return nil
	})})
	return lifecycle.Run(ctx, parts...)
}

func (d Dev) withConn(address string, run func(*grpc.ClientConn) error) error {
	conn, err := d.Dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	return run(conn)
}

// complete waits until every scheduler is registered and every node has its session.
func (d Dev) complete(ctx context.Context, m *mirror.Mirror) error {
	for {
		s, newer := m.Watch()
		if d.isComplete(s) {
			return nil
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (d Dev) isComplete(s *cellstate.Snapshot) bool {
	alive := 0
	for n := range s.Nodes() {
		if n.Alive != nil && n.Facts != nil {
			alive++
		}
	}
	if alive < 1+d.Hollow {
		return false
	}
	for _, p := range d.Policies {
		if row := s.Scheduler(p); row == nil || len(row.Instances) == 0 {
			return false
		}
	}
	return true
}
