package process

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	"github.com/ohmcell/ohm/cellstate/keeper"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cellstate/server"
	"github.com/ohmcell/ohm/pkg/lifecycle"
)

// Server is a server process: the gRPC services, the agents' gateway and the keeper.
type Server struct {
	Store    Store  // ignored with Embedded
	Embedded bool   // run an etcd in this process
	Quota    int64  // of the embedded etcd, in bytes; 0: the preset one
	DataDir  string // of the embedded etcd and of this server's name
	Listen   Listen
	Name     string // empty: from the data dir
	Version  string
	Limits   server.Limits
	Keeper   keeper.Limits
	// CheckEvery is the time in which the mirror compares itself with the store once; 0: never.
	CheckEvery time.Duration
	Log        *zap.Logger
	// Ready is called once with the address when requests are answered.
	Ready func(ctx context.Context, address string, store Store, m *mirror.Mirror)
}

// Run serves until ctx ends.
func (s Server) Run(ctx context.Context) error {
	RelaxCollector()
	if err := s.Listen.check(); err != nil {
		return err
	}
	if s.Name == "" {
		name, err := instance(s.DataDir)
		if err != nil {
			return err
		}
		s.Name = name
	}
	listener, err := s.Listen.open()
	if err != nil {
		return err
	}
	defer listener.Close()
	if s.Embedded {
		etcd, err := embedded.Settings{QuotaBytes: s.Quota}.Start(ctx, s.DataDir, s.Log)
		if err != nil {
			return err
		}
		defer etcd.Close()
		s.Store = embeddedStore(etcd.Endpoint(), s.Store.Cell)
	}
	return s.serve(ctx, listener)
}

func (s Server) serve(ctx context.Context, listener net.Listener) error {
	store, err := s.Store.Open(ctx, "server-"+s.Name, s.Log)
	if err != nil {
		return err
	}
	defer store.Close()
	s.Store.Config = store.Config() // with the limits that it has found
	m := mirror.New(store, s.Log.Named("mirror"), mirror.CheckEvery(s.CheckEvery))
	srv := server.New(server.Config{
		Store: store, Mirror: m, Cell: s.Store.Cell, Name: s.Name, Version: s.Version,
		Etcd:  server.Etcd{Endpoints: s.Store.Endpoints, MaxTxnOps: s.Store.MaxTxnOps, MaxRequestBytes: s.Store.MaxRequestBytes},
		Token: s.Listen.token, Log: s.Log.Named("server"), Limits: s.Limits,
	})
	keeping := keeper.Config{Store: store, Mirror: m, Server: s.Name, Log: s.Log.Named("keeper"), Limits: s.Keeper}
	if s.Embedded { // somebody else's etcd is theirs to defragment
		keeping.Carer = store
	}
	keep := keeper.New(keeping)
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(append(keep.Collectors(), srv.Collector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	g := grpc.NewServer(append(srv.Options(),
		grpc.MaxRecvMsgSize(64<<20), grpc.MaxConcurrentStreams(1<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)...)
	srv.Register(g)
	return lifecycle.Run(ctx,
		lifecycle.Part{Name: "mirror", Run: m.Run},
		lifecycle.Part{Name: "keeper", Run: keep.Run},
		lifecycle.Part{Name: "agents' gateway", Run: srv.Run},
		lifecycle.Part{Name: "listener", Run: func(ctx context.Context) error {
			if _, err := m.WaitSnapshot(ctx, 1); err != nil {
				return nil // ctx ended before there was anything to serve
			}
			if s.Ready != nil {
				s.Ready(ctx, listener.Addr().String(), s.Store, m)
			}
			return s.Listen.serve(ctx, listener, g, metrics)
		}},
	)
}

func unreachable(err error) bool { return errors.Is(err, cellstate.ErrUnreachable) }
