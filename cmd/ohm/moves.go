package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func jobRebalanceCommand(a *app) *cobra.Command {
	var plan, apply bool
	var moves, atOnce int32
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "rebalance JOB (--plan|--apply)",
		Short: "Spread the tasks of a service again",
		Long: `Spread the tasks of a service again, after nodes have come or come back.

--plan shows which task would move from which node to which, in an order in which each move
is possible, and changes nothing. --apply does it: a task is stopped, and its next attempt
is placed by the scheduler; then comes the next one. No more than --at-once tasks of a group
are down at a time, what is down by itself included, and never more than the job's disruption
budget allows. Ctrl-C ends it between two steps: what was stopped is placed again, and
nothing else moves.

Tasks that do not run, or are on nodes that drain or are silent, stay.`,
		Example: `  ohm job rebalance web --plan
  ohm job rebalance web --apply
  ohm job rebalance web --apply --at-once 3 --timeout 1h`,
		Args: named("the name of a job", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case plan == apply:
				return refuse("say --plan or --apply")
			case !apply && (cmd.Flags().Changed("at-once") || cmd.Flags().Changed("timeout")):
				return refuse("--at-once and --timeout go with --apply")
			case atOnce < 1 || timeout < 0 || moves < 1:
				return refuse("--moves and --at-once are at least 1, --timeout is a positive time")
			case apply:
				return a.rebalance(cmd.Context(), &ohmv1.RebalanceRequest{Namespace: a.namespace(), Job: args[0], AtOnce: atOnce}, int(moves), timeout)
			}
			return a.planMoves(cmd.Context(), &ohmv1.PlanMovesRequest{Namespace: a.namespace(), Job: args[0], Most: moves})
		},
	}
	cmd.Flags().BoolVar(&plan, "plan", false, "show the moves and change nothing")
	cmd.Flags().BoolVar(&apply, "apply", false, "make the moves, step by step")
	cmd.Flags().Int32Var(&atOnce, "at-once", 1, "with --apply: at most so many tasks of a group down at a time")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --apply: make no more steps after this time (default: never)")
	movesFlag(cmd, &moves)
	outputFlag(cmd, listFormats()...)
	return cmd
}

// rebalance makes step after step until none is left, and shows those that were made.
func (a *app) rebalance(ctx context.Context, req *ohmv1.RebalanceRequest, most int, timeout time.Duration) error {
	c := a.cell()
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, errWaitedEnough)
		defer cancel()
	}
	var moved []*ohmv1.MoveStep
	why := ""
	var over error
	for len(moved) < most {
		var resp *ohmv1.RebalanceResponse
		if resp, over = c.jobs.Rebalance(waiting, req); over != nil || resp.GetDone() {
			break
		}
		if m := resp.GetMoved(); m != nil {
			a.note("%s leaves node %s, for %s", m.Task, m.From, m.To)
			moved = append(moved, m)
			continue
		}
		if why != resp.GetWaits() {
			why = resp.GetWaits()
			a.note("waiting: %s", why)
		}
		if !sleep(waiting, pollEvery) {
			over = waiting.Err()
			break
		}
	}
	if over != nil && len(moved) == 0 && waiting.Err() == nil {
		return a.unknownJobs(ctx, c, over, req.Job)
	}
	if len(moved) == 0 && over == nil {
		a.note("no move would spread job %s better", req.Job)
	}
	if err := a.show(view{
		json:  many(moved),
		names: namesOf(moved, (*ohmv1.MoveStep).GetTask),
		table: func(p *printer) { moveTable(p, moved) },
	}); err != nil {
		return err
	}
	const goOn = "what was stopped is placed again; `ohm job rebalance JOB --apply` goes on"
	switch {
	case over == nil:
		return nil
	case context.Cause(waiting) == errWaitedEnough:
		return failf(exitTimedOut, goOn, "not done after --timeout %s: %s made", timeout, plural(len(moved), "move"))
	case ctx.Err() != nil:
		return failf(exitCancelled, goOn, "ended after %s", plural(len(moved), "move"))
	}
	return over
}

func nodeDefragCommand(a *app) *cobra.Command {
	var plan bool
	var moves int32
	cmd := &cobra.Command{
		Use:   "defrag --plan",
		Short: "Show which tasks to move to free nodes and GPUs",
		Long: `Show which tasks to move to other nodes that are in use, so that nodes become empty, and GPUs
usable that are free where nobody could use them: for want of CPU or memory beside them, or
because their pieces are too small. The moves are in an order in which each is possible, and
keep to all rules. Only tasks of services move, and those of batch jobs with a disruption
budget. Nothing is moved by itself: give up what you like, one after the other.`,
		Example: `  ohm node defrag --plan
  ohm node defrag --plan --moves 10 -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !plan {
				return refuse("say --plan: nothing is moved by itself")
			}
			return a.planMoves(cmd.Context(), &ohmv1.PlanMovesRequest{Most: moves})
		},
	}
	cmd.Flags().BoolVar(&plan, "plan", false, "show the moves and change nothing")
	movesFlag(cmd, &moves)
	outputFlag(cmd, listFormats()...)
	return cmd
}

func movesFlag(cmd *cobra.Command, moves *int32) {
	cmd.Flags().Int32Var(moves, "moves", 100, "at most so many moves")
}

// planMoves shows a plan.
func (a *app) planMoves(ctx context.Context, req *ohmv1.PlanMovesRequest) error {
	if req.Most < 1 {
		return refuse("--moves is at least 1")
	}
	c := a.cell()
	plan, err := c.insight.PlanMoves(ctx, req)
	if err != nil && req.Job != "" {
		return a.unknownJobs(ctx, c, err, req.Job)
	}
	if err != nil {
		return err
	}
	a.note("%s", gainText(req, plan))
	return a.show(view{
		json:  one(plan),
		names: namesOf(plan.Moves, (*ohmv1.MoveStep).GetTask),
		table: func(p *printer) { moveTable(p, plan.Moves) },
	})
}

// gainText says what a plan is good for.
func gainText(req *ohmv1.PlanMovesRequest, plan *ohmv1.PlanMovesResponse) string {
	was, is := plan.Before, plan.After
	switch {
	case len(plan.Moves) == 0 && req.Job != "":
		return fmt.Sprintf("no move would spread job %s better: its nodes have %d to %d tasks", req.Job, was.GetFewestTasks(), was.GetMostTasks())
	case len(plan.Moves) == 0:
		return fmt.Sprintf("no move would free anything: %d nodes are empty, %s GPUs are stranded", was.GetEmptyNodes(), milliGPU(was.GetStrandedGpuMilli()))
	case req.Job != "":
		return fmt.Sprintf("%d moves: from %d to %d tasks on a node, to %d to %d", len(plan.Moves), was.GetFewestTasks(), was.GetMostTasks(), is.GetFewestTasks(), is.GetMostTasks())
	}
	return fmt.Sprintf("%d moves: from %d empty nodes to %d, from %s stranded GPUs to %s", len(plan.Moves),
		was.GetEmptyNodes(), is.GetEmptyNodes(), milliGPU(was.GetStrandedGpuMilli()), milliGPU(is.GetStrandedGpuMilli()))
}

func milliGPU(milli int64) string { return fmt.Sprintf("%.1f", float64(milli)/1000) }

func moveTable(p *printer, moves []*ohmv1.MoveStep) {
	type row = *ohmv1.MoveStep
	if len(moves) == 0 {
		return
	}
	columns(p, moves,
		column[row]{title: "NAMESPACE", cell: row.GetNamespace, skip: oneNamespace(moves, row.GetNamespace)},
		column[row]{title: "TASK", cell: row.GetTask},
		column[row]{title: "KIND", cell: row.GetKind},
		column[row]{title: "FROM", cell: row.GetFrom},
		column[row]{title: "TO", cell: row.GetTo},
		column[row]{title: "BUDGET", cell: row.GetBudget},
	)
}
