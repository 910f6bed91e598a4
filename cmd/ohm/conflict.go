package main

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func conflictCommand(a *app) *cobra.Command {
	return noun("conflict", "List conflicts",
		"A conflict is a claim refused because the cell moved on, with its reason and its winner.",
		"  ohm conflict list", conflictListCommand(a))
}

func conflictListCommand(a *app) *cobra.Command {
	req := &ohmv1.ListConflictsRequest{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List conflicts, newest first",
		Long: `List the conflicts in the journal, newest first: who lost, on which node, over what,
and who won. The journal is bounded; the oldest conflicts leave it.`,
		Example: `  ohm conflict list
  ohm conflict list --scheduler batch --node n7 --limit 20
  ohm conflict list --job train -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if req.Limit < 0 || cmd.Flags().Changed("limit") && req.Limit == 0 {
				return refuse("--limit %d is not a positive number", req.Limit)
			}
			c := a.cell()
			req.Namespace = a.client.Namespace
			if req.Job != "" {
				req.Namespace = a.namespace()
			}
			list, err := c.insight.ListConflicts(cmd.Context(), req)
			if err != nil {
				return err
			}
			if len(list.Conflicts) == 0 {
				a.note("no conflicts")
			}
			return a.show(view{
				json:  many(list.Conflicts),
				names: namesOf(list.Conflicts, (*ohmv1.ConflictView).GetTransaction),
				table: func(p *printer) { conflictTable(p, list.Conflicts) },
			})
		},
	}
	cmd.Flags().StringVar(&req.Scheduler, "scheduler", "", "only those that this scheduler lost")
	cmd.Flags().StringVar(&req.Job, "job", "", "only those of this job")
	cmd.Flags().StringVar(&req.Node, "node", "", "only those on this node")
	cmd.Flags().Int32Var(&req.Limit, "limit", 0, "at most so many (default: the newest 50)")
	outputFlag(cmd, listFormats()...)
	return cmd
}

func conflictTable(p *printer, conflicts []*ohmv1.ConflictView) {
	if len(conflicts) == 0 {
		return
	}
	type row = *ohmv1.ConflictView
	columns(p, conflicts,
		column[row]{title: "TIME", cell: func(c row) string { return p.app.ago(c.Time) }},
		column[row]{title: "LOSER", cell: row.GetScheduler},
		column[row]{title: "NAMESPACE", cell: row.GetNamespace, skip: !p.wide && oneNamespace(conflicts, row.GetNamespace)},
		column[row]{title: "TASK", cell: row.GetTask},
		column[row]{title: "NODE", cell: row.GetNode},
		column[row]{title: "REASON", cell: reasonOf},
		column[row]{title: "WINNER", cell: func(c row) string { return c.GetWinner().GetScheduler() }},
		column[row]{title: "WITH", cell: func(c row) string { return c.GetWinner().GetTask() }},
		column[row]{title: "TRANSACTION", cell: row.GetTransaction, skip: !p.wide},
		column[row]{title: "WON BY", cell: func(c row) string { return c.GetWinner().GetTransaction() }, skip: !p.wide},
		column[row]{title: "SNAPSHOT", cell: func(c row) string { return number(c.SnapshotRevision) }, skip: !p.wide},
		column[row]{title: "STORE", cell: func(c row) string { return number(c.StoreRevision) }, skip: !p.wide},
	)
}

// reasonOf is why a claim was refused: "Resources: 3 cpu wanted, 1 free". Bytes are
// rounded; the JSON has them exactly.
func reasonOf(c *ohmv1.ConflictView) string {
	s := c.Reason
	wanted, free := resource.RoundWritten(c.Wanted, c.Free)
	if wanted != "" {
		s += ": " + strings.TrimSpace(fmt.Sprintf("%s %s", wanted, c.Dimension)) + " wanted"
		if free != "" {
			s += ", " + free + " free"
		}
	} else if c.Dimension != "" {
		s += ": " + c.Dimension
	}
	return s
}
