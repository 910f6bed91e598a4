package main

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func nodeCommand(a *app) *cobra.Command {
	return noun("node", "List, get, label, drain and resume nodes, call them lost, or plan to free some",
		"Nodes are the machines of the cell, each run by one agent.",
		"  ohm node list\n  ohm node drain n7 --wait",
		nodeListCommand(a), nodeGetCommand(a), nodeLabelCommand(a), nodeDrainCommand(a), nodeResumeCommand(a), nodeLostCommand(a), nodeDefragCommand(a))
}

func nodeListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List nodes",
		Long: `List the nodes of the cell with what is used of each and how much there is. A node
without a session is Silent while tasks stand on it, which may go on, and Lost when none
does any more. Where so many nodes are silent at once that nothing of them is given up, that
is said on stderr.`,
		Example: `  ohm node list
  ohm node list -o wide`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.cell()
			list, err := c.nodes.List(cmd.Context(), &ohmv1.ListNodesRequest{})
			if err != nil {
				return err
			}
			if list.Alarm != "" {
				a.note("%s", list.Alarm)
			}
			if len(list.Nodes) == 0 {
				a.note("no nodes; start one with `ohm agent`")
			}
			return a.show(view{
				json:  many(list.Nodes),
				names: namesOf(list.Nodes, (*ohmv1.NodeView).GetNode),
				table: func(p *printer) { nodeTable(p, list.Nodes) },
			})
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func nodeGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get NODE",
		Short:   "Show one node",
		Long:    "Show one node: its state, resources, GPUs, labels and attributes, and what its driver can enforce.",
		Example: "  ohm node get dev",
		Args:    named("the name of a node", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := a.cell()
			n, err := c.nodes.Get(cmd.Context(), &ohmv1.GetNodeRequest{Node: args[0]})
			if err != nil {
				return a.unknownNode(cmd.Context(), c, err, args[0])
			}
			return a.showNode(n)
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) showNode(n *ohmv1.NodeView) error {
	return a.show(view{
		json:  one(n),
		names: func() []string { return []string{n.Node} },
		table: func(p *printer) { nodeDetail(p, n) },
	})
}

func nodeTable(p *printer, nodes []*ohmv1.NodeView) {
	if len(nodes) == 0 {
		return
	}
	type row = *ohmv1.NodeView
	columns(p, nodes,
		column[row]{title: "NODE", cell: row.GetNode},
		column[row]{title: "STATE", cell: nodeState},
		column[row]{title: "TASKS", cell: func(n row) string { return fmt.Sprint(n.Tasks) }},
		column[row]{title: "CPU", cell: cpuUse},
		column[row]{title: "MEMORY", cell: memoryUse},
		column[row]{title: "DISK", cell: diskUse, skip: !p.wide},
		column[row]{title: "GPUS", cell: gpuUse},
		column[row]{title: "DRIVER", cell: row.GetDriver},
		column[row]{title: "SINCE", cell: func(n row) string { return p.app.ago(n.Since) }},
		column[row]{title: "AGENT", cell: row.GetAgentVersion, skip: !p.wide},
		column[row]{title: "SERVER", cell: row.GetServer, skip: !p.wide},
		column[row]{title: "LABELS", cell: func(n row) string { return mapText(n.Labels) }, skip: !p.wide},
	)
}

func nodeState(n *ohmv1.NodeView) string {
	if n.OverCommitted {
		return n.State + ",OverCommitted"
	}
	return n.State
}

// What is used of how much there is.

func cpuUse(n *ohmv1.NodeView) string {
	return resource.FormatCPU(n.GetUsed().GetCpuMilli()) + "/" + resource.FormatCPU(n.GetCapacity().GetCpuMilli())
}

func memoryUse(n *ohmv1.NodeView) string {
	return resource.RoundBytes(n.GetUsed().GetMemoryBytes()) + "/" + resource.RoundBytes(n.GetCapacity().GetMemoryBytes())
}

func diskUse(n *ohmv1.NodeView) string {
	return resource.RoundBytes(n.GetUsed().GetDiskBytes()) + "/" + resource.RoundBytes(n.GetCapacity().GetDiskBytes())
}

func gpuUse(n *ohmv1.NodeView) string {
	used := int64(0)
	for _, g := range n.Gpus {
		used += int64(g.UsedMilli)
	}
	return resource.FormatCPU(used) + "/" + fmt.Sprint(len(n.Gpus))
}

func portUse(n *ohmv1.NodeView) string {
	r := n.DynamicPorts
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d owned, dynamic ones from %d to %d", n.Ports, r.First, r.Last)
}

// known prints bytes, and nothing where nobody knows how many.
func known(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return resource.FormatBytes(bytes)
}

func nodeDetail(p *printer, n *ohmv1.NodeView) {
	p.pairs(
		[2]string{"node", n.Node}, [2]string{"state", nodeState(n)}, [2]string{"since", p.app.ago(n.Since)},
		[2]string{"tasks", fmt.Sprint(n.Tasks)}, [2]string{"deadline", p.app.until(n.DrainDeadline)},
		[2]string{"cpu", cpuUse(n) + " used"}, [2]string{"memory", memoryUse(n) + " used"}, [2]string{"disk", diskUse(n) + " used"},
		[2]string{"ports", portUse(n)}, [2]string{"reserved ports", strings.Trim(fmt.Sprint(n.ReservedPorts), "[]")},
		[2]string{"labels", mapText(n.Labels)}, [2]string{"attributes", mapText(n.Attributes)},
		[2]string{"driver", n.Driver}, [2]string{"capabilities", strings.Join(n.Capabilities, ", ")},
		[2]string{"agent", n.AgentVersion}, [2]string{"server", n.Server},
	)
	if n.DeviceError != "" {
		p.pairs([2]string{"device error", n.DeviceError})
	}
	if len(n.Gpus) > 0 {
		type row = *ohmv1.GPUView
		p.heading("gpus:")
		columns(p, n.Gpus,
			column[row]{title: "GPU", cell: row.GetId},
			column[row]{title: "MODEL", cell: row.GetModel},
			column[row]{title: "MEMORY", cell: func(g row) string { return known(g.GetMemoryBytes()) }},
			column[row]{title: "USED", cell: func(g row) string { return resource.FormatCPU(int64(g.UsedMilli)) }},
			column[row]{title: "HEALTH", cell: row.GetHealth},
			column[row]{title: "WHY", cell: row.GetWhy},
		)
	}
	if len(n.Holds) > 0 {
		p.heading("held for transactions that kept losing:")
		holdTable(p, n.Holds)
	}
}
