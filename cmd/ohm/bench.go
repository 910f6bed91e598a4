package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ohmcell/ohm/cmd/ohm/bench"
)

func benchCommand(a *app) *cobra.Command {
	return noun("bench", "Measure how fast a cell is on this machine",
		"Measure a cell of its own on this machine. Nothing of it stays.", "  ohm bench commit --nodes 5000 --schedulers 3 --steady 0.6\n  ohm bench all",
		benchCommitCommand(a), benchAllCommand(a), benchPackingCommand(a), benchEtcdCommand(a), benchSchedulerCommand(a))
}

func benchCommitCommand(a *app) *cobra.Command {
	conf := bench.Config{}
	p := &part{a: a}
	var fill bool
	c := &cobra.Command{
		Use:   "commit",
		Short: "Measure placements a second against raw etcd",
		Long: `Measure, in one run, raw nested commits of etcd and the whole road of a placement: from
jobs in the store to placements that are durable and seen by a mirror, with real
scheduler processes and an etcd process of its own that fsyncs, or, with --etcd, in a cell
of its own on yours, which is removed at the end. Nodes are records only, of 64 cores;
tasks take one core each. All that is counted is counted from the store.

With --steady, whole jobs are removed at random as fast as placements come, once that
share of the cell is in use; with --fill nothing leaves. With --live so many placements
are there before the first scheduler starts, and so many are kept. With --rate tasks come
so many a second, instead of as fast as they are placed.

With --life tasks of 1 to 10 s run on simulated nodes, below a server process: placed,
started, reported, ended one by one, released. With --trickle jobs of the service
scheduler come beside the load, with --submit the load comes through the API, with
--sessions a server process tells agents what is placed. They can be combined.`,
		Example: `  ohm bench commit --nodes 5000 --schedulers 3 --tasks-per-job 100 --max-per-node 1 --steady 0.6 --duration 20s
  ohm bench commit --fill -o json
  ohm bench commit --life --steady 0.3 --warmup 12s
  ohm bench commit --trickle 20 --compact-every 5s
  ohm bench commit --tasks-per-job 1 --submit 100
  ohm bench commit --sessions 5000 --heartbeats
  ohm bench commit --nodes 50000 --live 500000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fill {
				conf.Steady, conf.Live = 0, 0
			}
			conf.Etcd = p.store
			if err := conf.Check(); err != nil {
				return refuse("%v", err)
			}
			if err := a.ofThisProgram(&conf); err != nil {
				return err
			}
			r, err := bench.Run(cmd.Context(), conf)
			if err != nil {
				return benchFailed(cmd, err)
			}
			return a.showFigures(r, benchFigures(r))
		},
	}
	f := c.Flags()
	f.IntVar(&conf.Nodes, "nodes", 5000, "nodes of the cell")
	f.IntVar(&conf.Schedulers, "schedulers", 3, "scheduler processes")
	f.IntVar(&conf.TasksPerJob, "tasks-per-job", 100, "tasks of a job")
	f.IntVar(&conf.MaxPerNode, "max-per-node", 1, "tasks of one job on one node at most")
	f.Float64Var(&conf.Steady, "steady", 0.6, "share of the cell to keep in use")
	f.IntVar(&conf.Live, "live", 0, "placements that are there from the start and kept in use, instead of --steady")
	f.Float64Var(&conf.Rate, "rate", 0, "tasks a second that come; 0: as many as are placed")
	f.BoolVar(&fill, "fill", false, "fill the cell, nothing leaves")
	f.BoolVar(&conf.Life, "life", false, "whole lives of tasks of 1 to 10 s on simulated nodes")
	f.Float64Var(&conf.Trickle, "trickle", 0, "one-task service jobs a second beside the load")
	f.DurationVar(&conf.CompactEvery, "compact-every", 0, "compact the store so often; 0: never")
	f.IntVar(&conf.Submit, "submit", 0, "submit the jobs through the API, so many in a request; 0: put them into the store")
	f.IntVar(&conf.Sessions, "sessions", 0, "agents' sessions that are told what is placed on their nodes")
	f.BoolVar(&conf.Heartbeats, "heartbeats", false, "each second from every session")
	f.DurationVar(&conf.Duration, "duration", 20*time.Second, "of the measured window; of a long one there is a line a minute on stderr")
	f.DurationVar(&conf.Warmup, "warmup", 3*time.Second, "after the cell is as full as it is to be, or the first task has ended")
	f.DurationVar(&conf.RawDuration, "raw-duration", 5*time.Second, "of the raw commits; 0: they are not measured")
	f.StringVar(&conf.Profiles, "profiles", "", "folder to write CPU profiles of the processes to")
	etcdFlags(p, f)
	outputFlag(c, "table", "json")
	return asPart(c)
}

// etcdFlags are those that say where an etcd is. Unlike a part of a cell, a measurement
// takes them from the command line only: it must not come upon a cell that is in use.
func etcdFlags(p *part, f *pflag.FlagSet) {
	f.StringSliceVar(&p.store.Endpoints, "etcd", nil, "measure in a cell of its own on this etcd, host:port,…")
	f.StringVar(&p.store.CA, "etcd-ca", "", "PEM file with the certificates that sign etcd's")
	f.StringVar(&p.store.Cert, "etcd-cert", "", "PEM file with the certificate to show to etcd")
	f.StringVar(&p.store.Key, "etcd-key", "", "PEM file with that certificate's key")
	f.IntVar(&p.store.MaxTxnOps, "etcd-max-txn-ops", 0, "the etcd server's --max-txn-ops; if not given, it is found out")
	f.IntVar(&p.store.MaxRequestBytes, "etcd-max-request-bytes", 0, "the etcd server's --max-request-bytes; if not given, it is found out")
}

// benchFailed says what went wrong with a measurement, which is not about the cell at
// --address.
func benchFailed(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return err
	}
	return failf(exitFailed, "", "%v", err)
}

func (a *app) ofThisProgram(conf *bench.Config) (err error) {
	conf.Log = a.stderr
	conf.Program, err = os.Executable()
	return err
}

// benchEtcdCommand and benchSchedulerCommand are processes of a measurement.
func benchEtcdCommand(a *app) *cobra.Command {
	var dir, profile string
	c := &cobra.Command{Use: "etcd", Hidden: true,
		Short: "Run the etcd of a measurement", Long: "Run the etcd of a measurement; ohm bench commit starts it.",
		Example: "  ohm bench etcd --data-dir DIR", RunE: func(cmd *cobra.Command, _ []string) error {
			stop, err := bench.Profile(profile)
			if err != nil {
				return err
			}
			defer stop()
			return bench.Etcd(cmd.Context(), dir, a.stdout)
		}}
	c.Flags().StringVar(&dir, "data-dir", "", "folder of the etcd")
	profileFlag(c.Flags(), &profile)
	return asPart(c)
}

func benchSchedulerCommand(a *app) *cobra.Command {
	p := &part{a: a}
	var instance, profile string
	var most int
	c := &cobra.Command{Use: "scheduler", Hidden: true,
		Short: "Run a scheduler of a measurement", Long: "Run a scheduler of a measurement; ohm bench commit starts it.",
		Example: "  ohm bench scheduler --etcd ENDPOINT --instance bench-0", RunE: func(cmd *cobra.Command, _ []string) error {
			stop, err := bench.Profile(profile)
			if err != nil {
				return err
			}
			defer stop()
			return bench.Scheduler(cmd.Context(), p.store, instance, most, a.stdout)
		}}
	profileFlag(c.Flags(), &profile)
	p.storeFlags(c.Flags())
	c.Flags().StringVar(&instance, "instance", "", "name of this instance")
	c.Flags().IntVar(&most, "max-per-node", 1, "tasks of one job on one node at most")
	return asPart(c)
}
