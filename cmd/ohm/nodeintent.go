package main

import (
	"context"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func nodeDrainCommand(a *app) *cobra.Command {
	var wait, dryRun bool
	var timeout, deadline time.Duration
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Take the tasks off a node",
		Long: `Take the tasks off a node: it gets no new ones, and those that it has are stopped and
placed elsewhere, or wait with all their retries where nobody has room. It stays so until
` + "`ohm node resume`" + `. With --deadline, tasks of batch and ml jobs may go on until then, and end
by themselves. Tasks of system jobs are stopped last. With --wait it ends when no task is
left on the node.

--dry-run changes nothing and says for each task what would become of it.`,
		Example: `  ohm node drain n7
  ohm node drain n7 --deadline 1h --dry-run
  ohm node drain n7 --wait --timeout 10m`,
		Args: named("the name of a node", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("timeout") && (!wait || timeout <= 0) {
				return refuse("--timeout is a positive time for --wait, such as 10m")
			}
			var within *durationpb.Duration
			if cmd.Flags().Changed("deadline") {
				if deadline < 0 {
					return refuse("--deadline is a time from now, such as 1h")
				}
				within = durationpb.New(deadline)
			}
			if dryRun {
				return a.planDrain(cmd.Context(), args[0], within)
			}
			return a.drain(cmd.Context(), &ohmv1.SetIntentRequest{Node: args[0], Drain: proto.Bool(true), DrainWithin: within}, wait, timeout)
		},
	}
	cmd.Flags().DurationVar(&deadline, "deadline", 0, "how long tasks of batch and ml jobs may go on (default: they are stopped at once)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, and say what would become of each task")
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
			c := a.cell()
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

func (a *app) drain(ctx context.Context, intent *ohmv1.SetIntentRequest, wait bool, timeout time.Duration) error {
	node := intent.GetNode()
	c := a.cell()
	n, err := c.nodes.SetIntent(ctx, intent)
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
