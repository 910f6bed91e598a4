package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cellstate/keeper"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/cellstate/server"
	"github.com/ohmcell/ohm/cmd/ohm/bench"
	"github.com/ohmcell/ohm/cmd/ohm/process"
	"github.com/ohmcell/ohm/pkg/config"
	"github.com/ohmcell/ohm/pkg/resource"
)

func serverCommand(a *app) *cobra.Command {
	p := &part{a: a}
	var name, quota, profile string
	var keep keeper.Limits
	var limits server.Limits
	c := &cobra.Command{
		Use:   "server",
		Short: "Run a server of a cell",
		Long: `Run a server: the API on --address, the agents' sessions and the housekeeping. Any
number of servers may serve one cell. The cell's state is in an etcd of yours (--etcd)
or in one that this process runs (--embedded-etcd).

Prints "ready ADDRESS" when it answers, and with --embedded-etcd "etcd ENDPOINT" before.`,
		Example: `  ohm server --embedded-etcd --data-dir ./cell
  ohm server --etcd 10.0.0.1:2379,10.0.0.2:2379 --etcd-ca ca.pem --etcd-cert me.pem --etcd-key me.key \
    --address 0.0.0.0:7400 --tls-cert server.pem --tls-key server.key --token-file token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := p.log()
			if err != nil {
				return err
			}
			if p.embedded == (len(p.store.Endpoints) > 0) {
				return refuse("give either --etcd host:port,… or --embedded-etcd")
			}
			var bytes int64
			if quota != "" {
				if bytes, err = resource.ParseBytes(quota); err != nil || bytes <= 0 {
					return refuse("--embedded-etcd-quota %q is not a size, such as 8Gi", quota)
				}
			}
			dir := p.dataDir
			if p.embedded && dir == "" {
				dir = a.defaultDataDir()
			}
			keep.Lease = limits.Lease
			stop, err := bench.Profile(profile)
			if err != nil {
				return err
			}
			defer stop()
			err = process.Server{
				Keeper: keep, Limits: limits, Store: p.store, Embedded: p.embedded, Quota: bytes, DataDir: dir, Listen: p.listen(),
				Name: name, Version: version, CheckEvery: p.check, Log: log,
				Ready: func(_ context.Context, address string, store process.Store, _ *mirror.Mirror) {
					if p.embedded {
						fmt.Fprintf(a.stdout, "etcd %s\n", store.Endpoints[0])
					}
					fmt.Fprintf(a.stdout, "ready %s\n", address)
				},
			}.Run(cmd.Context())
			return p.ended(cmd.Context(), err)
		},
	}
	f := c.Flags()
	p.storeFlags(f)
	p.listenFlags(f)
	p.dataFlags(f, "", "where the embedded etcd and this server's name are kept")
	p.logFlags(f, "info")
	f.BoolVar(&p.embedded, "embedded-etcd", false, "run the cell's etcd in this process")
	f.StringVar(&quota, "embedded-etcd-quota", "", "size of the embedded etcd's file at which it takes no more writes; if not given, 8Gi")
	f.StringVar(&name, "name", "", "name of this server, unique in the cell; if not given, one is made and kept in the data dir")
	f.IntVar(&keep.DoneJobs, "keep-done-jobs", keeper.DoneJobs, "jobs that are done and kept; the oldest beyond them are removed with all records of their tasks")
	f.DurationVar(&keep.HalfLife, "share-half-life", 10*time.Minute, "in how long half is forgotten of what a namespace has held, where namespaces share the cell by weights")
	silenceFlags(f, &limits, &keep)
	profileFlag(f, &profile)
	config.Settings(f, "embedded-etcd", "embedded-etcd-quota", "keep-done-jobs", "share-half-life")
	return asPart(c)
}
