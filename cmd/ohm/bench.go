package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cmd/ohm/bench"
)

func benchCommand(a *app) *cobra.Command {
	c := noun("bench", "Measure how fast a cell is on this machine",
		"Measure a cell of its own on this machine. Nothing of it stays.", "  ohm bench commit --nodes 5000 --schedulers 3 --steady 0.6",
		benchCommitCommand(a), benchEtcdCommand(a), benchSchedulerCommand(a))
	return c
}

func benchCommitCommand(a *app) *cobra.Command {
	conf := bench.Config{}
	var fill bool
	c := &cobra.Command{
		Use:   "commit",
		Short: "Measure placements a second against raw etcd",
		Long: `Measure, in one run, raw nested commits of etcd and the whole road of a placement: from
jobs in the store to placements that are durable and seen by a server's mirror, with
real scheduler processes and an etcd process of its own that fsyncs. Nodes are records
only, of 64 cores; tasks take one core each.

With --steady, whole jobs are removed at random as fast as placements come, once that
share of the cell is in use; with --fill nothing leaves.`,
		Example: `  ohm bench commit --nodes 5000 --schedulers 3 --tasks-per-job 100 --max-per-node 1 --steady 0.6 --duration 20s
  ohm bench commit --fill -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case conf.Nodes < 1 || conf.Schedulers < 1 || conf.TasksPerJob < 1 || conf.MaxPerNode < 1:
				return refuse("--nodes, --schedulers, --tasks-per-job and --max-per-node are at least 1")
			case conf.Steady < 0 || conf.Steady > 0.95:
				return refuse("--steady %g is not between 0 and 0.95", conf.Steady)
			case conf.TasksPerJob > conf.Nodes*conf.MaxPerNode:
				return refuse("a job of %d tasks does not fit on %d nodes with at most %d each", conf.TasksPerJob, conf.Nodes, conf.MaxPerNode)
			}
			if fill {
				conf.Steady = 0
			}
			var err error
			if conf.Program, err = os.Executable(); err != nil {
				return err
			}
			conf.Log = a.stderr
			r, err := bench.Run(cmd.Context(), conf)
			if err != nil {
				return err
			}
			return a.showBench(r)
		},
	}
	f := c.Flags()
	f.IntVar(&conf.Nodes, "nodes", 5000, "nodes of the cell")
	f.IntVar(&conf.Schedulers, "schedulers", 3, "scheduler processes")
	f.IntVar(&conf.TasksPerJob, "tasks-per-job", 100, "tasks of a job")
	f.IntVar(&conf.MaxPerNode, "max-per-node", 1, "tasks of one job on one node at most")
	f.Float64Var(&conf.Steady, "steady", 0.6, "share of the cell to keep in use")
	f.BoolVar(&fill, "fill", false, "fill the cell, nothing leaves")
	f.DurationVar(&conf.Duration, "duration", 20*time.Second, "of the measured window")
	f.DurationVar(&conf.Warmup, "warmup", 3*time.Second, "after the cell is as full as it is to be")
	f.StringVar(&conf.Profiles, "profiles", "", "folder to write CPU profiles of the processes to")
	f.DurationVar(&conf.RawDuration, "raw-duration", 5*time.Second, "of the raw commits")
	outputFlag(c, "table", "json")
	return asPart(c)
}

func (a *app) showBench(r *bench.Report) error {
	return a.showFigures(r, []figure{
		{"placements per second", r.PlacementsPerSecond}, {"raw commits per second", r.RawPerSecond}, {"ratio", r.Ratio},
		{"releases per second", r.ReleasesPerSecond}, {"placements per node txn", r.PerNodeWrite},
		{"wait p50, p99 (ms)", fmt.Sprintf("%g, %g", r.Wait.P50, r.Wait.P99)}, {"commit p50, p99 (ms)", fmt.Sprintf("%g, %g", r.Commit.P50, r.Commit.P99)},
		{"conflict fraction", r.Conflicts["all"]}, {"in use", r.Used}, {"busyness", r.Busyness}, {"CPU (cores)", r.CPU},
		{"memory (MiB)", r.MemoryMiB}, {"store (MiB)", r.StoreMiB},
	})
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
	c.Flags().StringVar(&profile, "cpu-profile", "", "file for a CPU profile")
	return asPart(c)
}

func benchSchedulerCommand(a *app) *cobra.Command {
	var endpoint, instance, profile string
	var most int
	c := &cobra.Command{Use: "scheduler", Hidden: true,
		Short: "Run a scheduler of a measurement", Long: "Run a scheduler of a measurement; ohm bench commit starts it.",
		Example: "  ohm bench scheduler --etcd ENDPOINT --instance bench-0", RunE: func(cmd *cobra.Command, _ []string) error {
			stop, err := bench.Profile(profile)
			if err != nil {
				return err
			}
			defer stop()
			return bench.Scheduler(cmd.Context(), endpoint, instance, most, a.stdout)
		}}
	c.Flags().StringVar(&profile, "cpu-profile", "", "file for a CPU profile")
	c.Flags().StringVar(&endpoint, "etcd", "", "of the etcd")
	c.Flags().StringVar(&instance, "instance", "", "name of this instance")
	c.Flags().IntVar(&most, "max-per-node", 1, "tasks of one job on one node at most")
	return asPart(c)
}
