package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func jobRebalanceCommand(a *app) *cobra.Command {
	var plan bool
	var moves int32
	cmd := &cobra.Command{
		Use:   "rebalance JOB --plan",
		Short: "Show how to spread the tasks of a service again",
		Long: `Show how to spread the tasks of a service again, after nodes have come or come back: which
task would move from which node to which, in an order in which each move is possible. Nothing
is moved by itself. Tasks that do not run, or are on nodes that drain or are silent, stay.`,
		Example: `  ohm job rebalance web --plan
  ohm job rebalance web --plan -o json`,
		Args: named("the name of a job", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !plan {
				return refuse("say --plan: nothing is moved by itself")
			}
			return a.planMoves(cmd.Context(), &ohmv1.PlanMovesRequest{Namespace: a.namespace(), Job: args[0], Most: moves})
		},
	}
	cmd.Flags().BoolVar(&plan, "plan", false, "show the moves and change nothing")
	movesFlag(cmd, &moves)
	outputFlag(cmd, listFormats()...)
	return cmd
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
	c, err := a.dial()
	if err != nil {
		return err
	}
	defer c.close()
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
