// Package server is the control plane's door: the gRPC services that people, pipelines
// and agents speak to, over a store that it writes and a mirror that it reads.
//
// A request that changes something is judged on the mirror's snapshot and written with
// the revision that the snapshot has of every record; where the cell has moved on
// meanwhile, it is judged again on a newer snapshot. So any number of servers may
// serve one cell, and none needs to know of the others.
//
// Agents keep one session each with any server. The gateway tells them what to run and
// commits what they report, many reports at a time. Nothing here decides where a
// task runs or when it has failed for good: that is the schedulers' and the keeper's.
package server

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/mirror"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Store is what a server needs of the cell's store.
type Store interface {
	cellstate.Store
	cellstate.Leaser
	cellstate.Historian
}

// Etcd is where schedulers of this machine find the store, and the limits of that.
type Etcd struct {
	Endpoints                  []string
	MaxTxnOps, MaxRequestBytes int
}

// Config of a server. Store, Mirror, Cell and Name must be given.
type Config struct {
	Store   Store
	Mirror  *mirror.Mirror // somebody else runs it
	Cell    string
	Name    string // of this server, unique in the cell
	Version string // of this release
	Etcd    Etcd
	Token   string // that every caller must show; empty: none
	Log     *zap.Logger
	Limits  Limits
}

// Limits are the server's time limits; a zero one takes its default.
type Limits struct {
	Store  time.Duration // how long the store may take to answer a request; 5 s
	Silent time.Duration // how long an agent may be silent before its session is closed; 40 s
	Lease  time.Duration // life of this server's lease on the sessions it holds, without renewal; 10 s
	Slow   time.Duration // how long an agent may take to read one message; 20 s
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, preset time.Duration) {
		if *d <= 0 {
			*d = preset
		}
	}
	set(&l.Store, 5*time.Second)
	set(&l.Silent, 40*time.Second)
	set(&l.Lease, 10*time.Second)
	set(&l.Slow, 20*time.Second)
	return l
}

// Server serves one cell. Its gRPC server must be made with its Options.
type Server struct {
	cfg      Config
	log      *zap.Logger
	gateway  *gateway
	requests *requestCounter
	ends     *endCounter
}

// New returns a server; it serves agents while Run runs.
func New(cfg Config) *Server {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	s := &Server{cfg: cfg, log: cfg.Log.With(zap.String("cell", cfg.Cell)), requests: newRequestCounter(), ends: newEndCounter()}
	s.gateway = newGateway(s)
	return s
}

// Register adds the services to a gRPC server made with Options.
func (s *Server) Register(g *grpc.Server) {
	ohmv1.RegisterJobsServer(g, &jobs{Server: s})
	ohmv1.RegisterNodesServer(g, &nodes{Server: s})
	ohmv1.RegisterCellServer(g, &cell{Server: s})
	ohmv1.RegisterInsightServer(g, &insight{Server: s})
}

// Run runs the agents' gateway until ctx ends; then every session is closed.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.registerBuiltIns(ctx) })
	group.Go(func() error { return s.gateway.run(ctx) })
	return group.Wait()
}

// snapshot is the latest snapshot. It waits only where there has never been one.
func (s *Server) snapshot(ctx context.Context) (*cellstate.Snapshot, error) {
	if latest := s.cfg.Mirror.Snapshot(); latest != nil {
		return latest, nil
	}
	return s.waitSnapshot(ctx, 0)
}

// waitSnapshot waits, as long as the store may take to answer, for a snapshot that is
// at least as new as min.
func (s *Server) waitSnapshot(ctx context.Context, min cellstate.Revision) (*cellstate.Snapshot, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.cfg.Mirror.WaitSnapshot(ctx, min)
}

// bounded ends ctx after the time that the store may take to answer. The cause says so.
func (s *Server) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	silent := fmt.Errorf("%w: the store has not answered within %v", cellstate.ErrUnreachable, s.cfg.Limits.Store)
	return context.WithTimeoutCause(ctx, s.cfg.Limits.Store, silent)
}
