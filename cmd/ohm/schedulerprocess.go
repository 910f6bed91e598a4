package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cmd/ohm/process"
	"github.com/ohmcell/ohm/pkg/config"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// runsScheduler makes `ohm scheduler --policy …` the process beside its verbs.
func runsScheduler(a *app, noun *cobra.Command) *cobra.Command {
	p := &part{a: a}
	var policies []string
	var name string
	evictions := schedulers.DefaultEvictionLimits()
	noun.Use = "scheduler"
	noun.Long += `

With --policy it runs a scheduler: it takes the jobs that name it, decides on a private
snapshot of the cell and commits to the cell's etcd. It is told where that is (--etcd)
or asks the server at --address. Any number of instances share the jobs of one name.`
	noun.Example += `
  ohm scheduler --policy batch
  ohm scheduler --policy batch,service --etcd 10.0.0.1:2379`
	withoutPolicy := noun.RunE
	noun.RunE = func(cmd *cobra.Command, args []string) error {
		if len(policies) == 0 {
			return withoutPolicy(cmd, args)
		}
		log, err := p.log()
		if err != nil {
			return err
		}
		if name != "" && len(policies) > 1 {
			return refuse("--name %s cannot stand for %d policies", name, len(policies))
		}
		if evictions.PerMinute < 0 || evictions.PerTask < 0 || evictions.MinRun < 0 {
			return refuse("--evictions-per-minute, --evictions-per-task and --evict-after are not below 0")
		}
		if len(p.store.Endpoints) == 0 {
			if err := p.discoverStore(cmd); err != nil {
				return err
			}
		}
		err = process.Scheduler{
			Evictions: evictionLimits(evictions),
			Store:     p.store, Policies: policies, Name: name, Instance: p.instance, DataDir: p.dataDir, Version: version, CheckEvery: p.check, Log: log,
		}.Run(cmd.Context())
		return p.ended(cmd.Context(), err)
	}
	f := noun.Flags()
	f.StringSliceVar(&policies, "policy", nil, "run the schedulers of these policies, of "+strings.Join(process.Policies(), ", "))
	f.StringVar(&name, "name", "", "name to register under, by which jobs ask for it; if not given, the policy's")
	f.StringVar(&p.instance, "instance", "", "name of this instance; if not given, one is made and, with --data-dir, kept")
	f.IntVar(&evictions.PerMinute, "evictions-per-minute", evictions.PerMinute, "tasks of lower precedence that this instance evicts in a minute at most; 0: none")
	f.IntVar(&evictions.PerTask, "evictions-per-task", evictions.PerTask, "how often one task is evicted before it is left alone; 0: no limit")
	f.DurationVar(&evictions.MinRun, "evict-after", evictions.MinRun, "so long after it was placed no task is evicted")
	p.storeFlags(f)
	p.dataFlags(f, "", "where the instance's name is kept, so that a successor takes over at once")
	p.logFlags(f, "info")
	config.Settings(f, "policy", "instance", "evictions-per-minute", "evictions-per-task", "evict-after")
	return noun
}

// evictionLimits are limits as flags have them, in which nothing means nothing, as a Runner
// takes them, for which it means the default.
func evictionLimits(l schedulers.EvictionLimits) schedulers.EvictionLimits {
	for _, n := range []*int{&l.PerMinute, &l.PerTask} {
		if *n == 0 {
			*n = -1
		}
	}
	if l.MinRun == 0 {
		l.MinRun = -1
	}
	return l
}

// discoverStore asks the server where the store is.
func (p *part) discoverStore(cmd *cobra.Command) error {
	c := p.a.cell()
	info, err := c.cell.Info(cmd.Context(), &ohmv1.InfoRequest{})
	if err != nil {
		return err
	}
	p.store.Cell = "" // the server's, whatever --cell says
	p.store.Config = p.store.Discovered(info)
	return nil
}
