package main

import (
	"context"
	"fmt"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// planDrain shows what a drain would do.
func (a *app) planDrain(ctx context.Context, node string, within *durationpb.Duration) error {
	c := a.cell()
	plan, err := c.nodes.PlanDrain(ctx, &ohmv1.PlanDrainRequest{Node: node, DrainWithin: within})
	if err != nil {
		return a.unknownNode(ctx, c, err, node)
	}
	if len(plan.Steps) == 0 {
		a.note("no task is on node %s", node)
	}
	type row = *ohmv1.DrainStep
	return a.show(view{
		json:  many(plan.Steps),
		names: namesOf(plan.Steps, row.GetTask),
		table: func(p *printer) {
			if len(plan.Steps) == 0 {
				return
			}
			columns(p, plan.Steps,
				column[row]{title: "TASK", cell: row.GetTask},
				column[row]{title: "ATTEMPT", cell: func(s row) string { return fmt.Sprint(s.Attempt) }},
				column[row]{title: "KIND", cell: row.GetKind},
				column[row]{title: "STATE", cell: row.GetState},
				column[row]{title: "WHAT HAPPENS", cell: row.GetDetail},
			)
		},
	})
}

func nodeLostCommand(a *app) *cobra.Command {
	var silent bool
	cmd := &cobra.Command{
		Use:   "lost NODE...",
		Short: "Say that silent nodes will not come back with their tasks",
		Long: `Say that nodes without a session are lost: what stands on them is given up at once,
however long its job would have waited (whenSilent), and also while so many nodes are silent
that nothing is given up by itself. A node that comes back all the same is a node like any
other, and ends what it runs of that.

Say it of machines that are off: where the tasks go on in truth, there are two of each
until the node is back.`,
		Example: `  ohm node lost n7 n9
  ohm node lost --silent    # all that are silent now`,
		Args: func(cmd *cobra.Command, args []string) error {
			if silent == (len(args) > 0) {
				return refuse("give the names of nodes, or --silent")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c := a.cell()
			if silent {
				list, err := c.nodes.List(cmd.Context(), &ohmv1.ListNodesRequest{})
				if err != nil {
					return err
				}
				for _, n := range list.Nodes {
					if n.State == "Silent" {
						args = append(args, n.Node)
					}
				}
			}
			var nodes []*ohmv1.NodeView
			for _, name := range args {
				n, err := c.nodes.SetIntent(cmd.Context(), &ohmv1.SetIntentRequest{Node: name, Lost: proto.Bool(true)})
				if err != nil {
					return a.unknownNode(cmd.Context(), c, err, name)
				}
				nodes = append(nodes, n)
			}
			if len(nodes) == 0 {
				a.note("no node is silent")
			}
			return a.show(view{
				json:  many(nodes),
				names: namesOf(nodes, (*ohmv1.NodeView).GetNode),
				table: func(p *printer) { nodeTable(p, nodes) },
			})
		},
	}
	cmd.Flags().BoolVar(&silent, "silent", false, "all nodes that are silent now")
	outputFlag(cmd, listFormats()...)
	return cmd
}

// until says when a time will be.
func (a *app) until(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return "in " + span(t.AsTime().Sub(a.now()))
}
