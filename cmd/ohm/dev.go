package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cmd/ohm/process"
	"github.com/ohmcell/ohm/pkg/config"
)

func devCommand(a *app) *cobra.Command {
	p := &part{a: a}
	var policies []string
	var hollow int
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cell on this machine",
		Long: `Run a whole cell in this process: an etcd of its own, a server, the schedulers and
this machine as a node. Prints "ready ADDRESS" when a job can be run.

SIGTERM and Ctrl-C end the cell and leave its tasks running; started again on the
same data dir it goes on where it was.`,
		Example: `  ohm dev
  ohm dev --data-dir ./cell --address 127.0.0.1:7401
  ohm dev --hollow-nodes 1000    # simulated nodes, for jobs that ask for them`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := p.log()
			if err != nil {
				return err
			}
			if hollow < 0 {
				return refuse("--hollow-nodes %d is less than none", hollow)
			}
			p.node.Version = version
			err = process.Dev{
				DataDir: p.dataDir, Listen: p.listen(), Policies: policies, Hollow: hollow, Cell: p.store.Cell,
				Version: version, Facts: p.node, AgentTime: p.keep, Runtime: p.runtime, Log: log, Dial: p.dialSelf, Left: p.left,
				Ready: func(address string) { fmt.Fprintf(a.stdout, "ready %s\n", address) },
			}.Run(cmd.Context())
			return p.ended(cmd.Context(), err)
		},
	}
	f := c.Flags()
	p.dataFlags(f, a.defaultDataDir(), "where the cell keeps its state")
	p.listenFlags(f)
	p.nodeFlags(f)
	p.logFlags(f, "warn")
	f.StringVar(&p.store.Cell, "cell", "default", "name of the cell")
	f.StringSliceVar(&policies, "schedulers", process.Policies(), "built-in schedulers to run, of "+strings.Join(process.Policies(), ", "))
	f.IntVar(&hollow, "hollow-nodes", 0, "simulated nodes beside this machine; they take only jobs with a constraint on hollow")
	config.Settings(f, "cell", "schedulers", "hollow-nodes")
	return asPart(c)
}
