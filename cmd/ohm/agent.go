package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/agent"
	"github.com/ohmcell/ohm/cmd/ohm/bench"
	"github.com/ohmcell/ohm/cmd/ohm/openb"
	"github.com/ohmcell/ohm/cmd/ohm/process"
	"github.com/ohmcell/ohm/pkg/config"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func agentCommand(a *app) *cobra.Command {
	p := &part{a: a}
	var hollow, profile string
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run this machine as a node of a cell",
		Long: `Run the agent of this machine: it keeps a session with the server at --address and
runs what is placed here. It needs Linux. What it can enforce depends on the machine
and is shown by ` + "`ohm node get`" + `.

SIGTERM and Ctrl-C end the agent and leave the tasks running.

With --hollow-nodes it simulates nodes instead: a number of them, or one for each row
of a CSV file with the columns sn, cpu_milli, memory_mib, gpu, model.`,
		Example: `  ohm agent --address cell.example.org:7400 --tls-ca ca.pem --token-file token
  ohm agent --hollow-nodes 5000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := p.log()
			if err != nil {
				return err
			}
			if p.keep.Backoff < minReconnect {
				return refuse("--reconnect %v: the shortest is %v", p.keep.Backoff, minReconnect)
			}
			conn, err := a.connect(agent.DialOptions(p.keep.Backoff)...)
			if err != nil {
				return err
			}
			defer conn.Close()
			stop, err := bench.Profile(profile)
			if err != nil {
				return err
			}
			defer stop()
			if hollow != "" {
				nodes, err := hollowNodes(hollow)
				if err != nil {
					return err
				}
				return p.ended(cmd.Context(), process.Fleet(cmd.Context(), nodes, conn, p.keep.Backoff, log))
			}
			p.node.Version = version
			err = process.Agent{Runtime: p.runtime, Conn: conn, DataDir: p.dataDir, Facts: p.node, Times: p.keep, Log: log, Left: p.left}.Run(cmd.Context())
			return p.ended(cmd.Context(), err)
		},
	}
	f := c.Flags()
	p.dataFlags(f, a.defaultDataDir(), "where tasks, logs and the journal are kept")
	p.nodeFlags(f)
	p.logFlags(f, "info")
	profileFlag(f, &profile)
	f.DurationVar(&p.keep.Backoff, "reconnect", 5*time.Second, "longest pause between two tries to reach a server that is away")
	config.Settings(f, "reconnect")
	f.StringVar(&hollow, "hollow-nodes", "", "simulate nodes: how many, or a CSV file that lists them")
	return asPart(c)
}

// minReconnect keeps the agents of a cell from being a load on a server that comes back.
const minReconnect = 100 * time.Millisecond

// isCount reads a number of nodes.
func isCount(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0
}

// hollowNodes are the nodes to simulate: a number of one shape, or a file's.
func hollowNodes(s string) ([]*ohmv1.Node, error) {
	if n, ok := isCount(s); ok {
		return process.HollowNodes(n), nil
	}
	nodes, err := openb.ReadNodes(s)
	if err != nil {
		return nil, refuse("--hollow-nodes: %v", err)
	}
	return nodes, nil
}
