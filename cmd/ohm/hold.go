package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func holdCommand(a *app) *cobra.Command {
	return noun("hold", "List room that is held",
		"A hold keeps room on a node for one scheduler's transaction that kept losing or, as a reservation, for a job that needs more room than comes free at once.",
		"  ohm hold list", holdListCommand(a))
}

func holdListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List room that is held",
		Long: `List the room that is held, by node: for which task, by which scheduler, how much, and
since when. Of a reservation it also says when the room is expected to be there, by what the
tasks that stand there have declared (maxRuntime). A hold ends when its scheduler has placed
the task or changes its mind, and by itself soon after its scheduler has died.`,
		Example: `  ohm hold list
  ohm hold list -o wide`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.cell()
			list, err := c.nodes.List(cmd.Context(), &ohmv1.ListNodesRequest{})
			if err != nil {
				return err
			}
			var holds []*ohmv1.Hold
			for _, n := range list.Nodes {
				holds = append(holds, n.Holds...)
			}
			if len(holds) == 0 {
				a.note("nothing is held")
			}
			return a.show(view{
				json:  many(holds),
				names: namesOf(holds, func(h *ohmv1.Hold) string { return h.GetNode() + "/" + h.GetTxn() }),
				table: func(p *printer) { holdTable(p, holds) },
			})
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

// holdTable prints room that is held: where, for whom, since when.
func holdTable(p *printer, holds []*ohmv1.Hold) {
	type row = *ohmv1.Hold
	reserves := slices.ContainsFunc(holds, row.GetReserves)
	columns(p, holds,
		column[row]{title: "NODE", cell: row.GetNode},
		column[row]{title: "FOR", cell: func(h row) string {
			if h.Slot == nil {
				return ""
			}
			return cellstate.SlotOf(h.Slot).Task()
		}},
		column[row]{title: "SCHEDULER", cell: row.GetScheduler},
		column[row]{title: "INSTANCE", cell: row.GetInstance, skip: !p.wide},
		column[row]{title: "TRANSACTION", cell: row.GetTxn},
		column[row]{title: "RESOURCES", cell: func(h row) string { return amounts(h.Resources) }},
		column[row]{title: "GPUS", cell: func(h row) string { return shares(h.Gpus) }},
		column[row]{title: "WAITS FOR", cell: func(h row) string {
			if h.Awaits == nil {
				return ""
			}
			return cellstate.SlotOf(h.Awaits).Task()
		}, skip: !reserves},
		column[row]{title: "EXPECTED", cell: func(h row) string {
			switch {
			case !h.Reserves:
				return ""
			case h.Starts == nil:
				return "unknown"
			}
			return p.app.expected(h.Starts)
		}, skip: !reserves},
		column[row]{title: "SINCE", cell: func(h row) string { return p.app.ago(h.Time) }},
	)
}
