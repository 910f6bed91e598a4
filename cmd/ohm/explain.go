package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func explainCommand(a *app) *cobra.Command {
	var node string
	var txn string
	cmd := &cobra.Command{
		Use:   "explain JOB",
		Short: "Say why a job waits or failed",
		Long: `Say in what state a job is and why: where it stands in line, who is ahead and when
there may be room for it; its scheduler's last word on each group that waits, with the
nodes counted by the reason for which each of them could not take a task; the room that is held for it; the newest conflicts that it lost, and to whom; and
its tasks that failed.

With --node the job's scheduler says of that node alone what keeps each of the job's groups
off: all of it, with what is wanted, what is free, who has the rest, and what would give way.

With --txn it is about a transaction, and no job is named: the scheduler that decided it says how:
on which revision, among how many nodes, the best of them with their scores, what it chose,
whom that evicts, and what became of it. Its decision log goes back some thousands of claims;
of what is older the answer is what the cell has stored.`,
		Example: "  ohm explain train\n  ohm explain --node n7 train\n  ohm explain --txn 01JNF3Y6M8Q4",
		Args: func(cmd *cobra.Command, args []string) error {
			if txn != "" {
				return noArgs(cmd, args)
			}
			return named("the name of a job", 1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case txn != "" && node != "":
				return refuse("--txn and --node are two questions")
			case txn != "":
				return a.explainTxn(cmd.Context(), txn)
			case node != "":
				return a.explainNode(cmd.Context(), args[0], node)
			}
			return a.explain(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "say why the job's tasks do not go to this node")
	cmd.Flags().StringVar(&txn, "txn", "", "say how the transaction of this id was decided")
	outputFlag(cmd, "table", "wide", "json", "yaml")
	return cmd
}

func (a *app) explain(ctx context.Context, job string) error {
	c := a.cell()
	e, err := c.insight.Explain(ctx, &ohmv1.GetJobRequest{Namespace: a.namespace(), Job: job})
	if err != nil {
		return a.unknownJobs(ctx, c, err, job)
	}
	return a.show(view{json: one(e), table: func(p *printer) { explanation(p, e) }})
}

func explanation(p *printer, e *ohmv1.ExplainResponse) {
	first := fmt.Sprintf("%s is %s", e.Job, e.State)
	if e.Message != "" {
		first += ": " + e.Message
	}
	p.linef("%s", first)
	scheduler := fmt.Sprintf("scheduler %s is %s", e.Scheduler, schedulerState(e.SchedulerState))
	if e.Time != nil {
		scheduler += fmt.Sprintf("; its last word is of %s, on revision %d", p.app.ago(e.Time), e.SnapshotRevision)
	}
	p.linef("%s", scheduler)
	if e.Fair != nil {
		p.linef("%s", e.Fair.Text)
	}
	inLine(p, e)
	for _, g := range e.Groups {
		since := ""
		if g.Since != nil {
			since = " for " + strings.TrimSuffix(p.app.ago(g.Since), " ago")
		}
		p.heading("group %s: %s without a node%s; %s looked at", g.Group, plural(int(g.Waiting), "task"), since, plural(int(g.Nodes), "node"))
		type row = *ohmv1.Reason
		columns(p, g.Reasons,
			column[row]{title: "NODES", cell: func(r row) string { return fmt.Sprint(r.Nodes) }},
			column[row]{title: "REASON", cell: row.GetReason},
			column[row]{title: "OF", cell: row.GetDimension},
			column[row]{title: "DETAIL", cell: row.GetDetail},
			column[row]{title: "WOULD HELP", cell: row.GetRemedy, skip: !slices.ContainsFunc(g.Reasons, func(r row) bool { return r.Remedy != "" })},
		)
		if g.NoVictims != "" {
			p.linef("nothing gives way: %s", g.NoVictims)
		}
	}
	if len(e.Holds) > 0 {
		reserves := func(h *ohmv1.Hold) bool { return h.GetReserves() }
		if held := slices.DeleteFunc(slices.Clone(e.Holds), reserves); len(held) > 0 {
			p.heading("room held for it, since it kept losing:")
			holdTable(p, held)
		}
		if reserved := slices.DeleteFunc(slices.Clone(e.Holds), func(h *ohmv1.Hold) bool { return !reserves(h) }); len(reserved) > 0 {
			p.heading("room reserved for it, as the head of its scheduler's queue:")
			holdTable(p, reserved)
		}
	}
	if len(e.Conflicts) > 0 {
		p.heading("conflicts lost, newest first:")
		conflictTable(p, e.Conflicts)
	}
	if len(e.Usage) > 0 {
		p.heading("what its running tasks use:")
		usageTable(p, e.Usage)
	}
	if len(e.Tasks) > 0 {
		p.heading("tasks that failed, newest first:")
		taskTable(p, e.Tasks)
	}
}

// inLine says where a job stands among those that wait for room, and when it may have it.
func inLine(p *printer, e *ohmv1.ExplainResponse) {
	q := e.Queue
	if q == nil {
		return
	}
	p.linef("it is number %d of %d in line for room with scheduler %s", q.Position, q.Of, e.Scheduler)
	if len(q.Ahead) > 0 {
		var names []string
		for _, j := range q.Ahead {
			names = append(names, fmt.Sprintf("%s/%s (%s, %s)", j.Namespace, j.Job, plural(int(j.Tasks), "task"), aheadText(j)))
		}
		if more := int(q.Position) - 1 - len(q.Ahead); more > 0 {
			names = append(names, fmt.Sprintf("and %d more", more))
		}
		p.linef("ahead of it are %s: %s, which ask for %s", strings.Join(names, ", "), plural(int(q.TasksAhead), "task"), amountsText(q.WantsAhead, q.WantsAhead))
	}
	switch est := q.Estimate; {
	case est.GetStart() != nil && est.Code == "Room":
		p.linef("%s", est.Basis)
	case est.GetStart() != nil:
		p.linef("it has room %s, %s", p.app.expected(est.Start), est.Basis)
	default:
		p.linef("when it has room nobody knows: %s", est.GetBasis())
	}
}

func aheadText(j *ohmv1.QueuedJob) string {
	switch j.Code {
	case "HigherPrecedence":
		return fmt.Sprintf("precedence %d", j.Precedence)
	case "Turn":
		return "its namespace's turn"
	}
	return "older"
}

func schedulerState(state string) string {
	switch state {
	case "Live":
		return "live"
	case "NotSeen":
		return "not seen"
	case "":
		return "in an unknown state"
	}
	return state
}
