package main

import (
	"context"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
)

func nodeDrainCommand(a *app) *cobra.Command {
	var wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Take the tasks off a node",
		Long: `Take the tasks off a node: it gets no new ones, and those that it has are stopped and
placed elsewhere. It stays so until ` + "`ohm node resume`" + `. With --wait it ends when no
task is left on the node.`,
		Example: `  ohm node drain n7
  ohm node drain n7 --wait --timeout 10m`,
		Args: named("the name of a node", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && (!wait || timeout <= 0) {
				return refuse("--timeout is a positive time for --wait, such as 10m")
			}
			return a.drain(cmd.Context(), args[0], wait, timeout)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until no task is left")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: give up waiting after this time (default: never)")
	outputFlag(cmd, listFormats()...)
	return cmd
}

func nodeResumeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume NODE",
		Short:   "Let a node take tasks again",
		Long:    "Let a node take tasks again, after `ohm node drain` or after it was made ineligible.",
		Example: "  ohm node resume n7",
		Args:    named("the name of a node", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.dial()
			if err != nil {
				return err
			}
			defer c.close()
			intent := &ohmv1.SetIntentRequest{Node: args[0], Drain: proto.Bool(false), Ineligible: proto.Bool(false)}
			n, err := c.nodes.SetIntent(cmd.Context(), intent)
			if err != nil {
				return a.unknownNode(cmd.Context(), c, err, args[0])
			}
			return a.showNodeLine(n)
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

// pollEvery is how often a node that is being drained is looked at.
const pollEvery = 500 * time.Millisecond

func (a *app) drain(ctx context.Context, node string, wait bool, timeout time.Duration) error {
	c, err := a.dial()
	if err != nil {
		return err
	}
	defer c.close()
	n, err := c.nodes.SetIntent(ctx, &ohmv1.SetIntentRequest{Node: node, Drain: proto.Bool(true)})
	if err != nil {
		return a.unknownNode(ctx, c, err, node)
	}
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, errWaitedEnough)
		defer cancel()
	}
	var over error
	for wait && n.Tasks > 0 && over == nil {
		if !sleep(waiting, pollEvery) {
			over = waiting.Err()
			break
		}
		var now *ohmv1.NodeView
		if now, over = c.nodes.Get(waiting, &ohmv1.GetNodeRequest{Node: node}); over == nil {
			n = now
		}
	}
	if err := a.showNodeLine(n); err != nil {
		return err
	}
	switch {
	case over == nil:
		return nil
	case context.Cause(waiting) == errWaitedEnough:
		return failf(exitTimedOut, "`ohm task list --node "+node+"` shows them", "%s on node %s after --timeout %s; the drain goes on", plural(int(n.Tasks), "task"), node, timeout)
	case ctx.Err() != nil:
		return failf(exitCancelled, "end it with `ohm node resume "+node+"`", "no longer waiting; the drain of node %s goes on", node)
	}
	return a.unknownNode(ctx, c, over, node)
}

// showNodeLine is a node as one line of a table, an object in JSON.
func (a *app) showNodeLine(n *ohmv1.NodeView) error {
	return a.show(view{
		json:  one(n),
		names: func() []string { return []string{n.Node} },
		table: func(p *printer) { nodeTable(p, []*ohmv1.NodeView{n}) },
	})
}
