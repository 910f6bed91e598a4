package main

import (
	"fmt"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func txnCommand(a *app) *cobra.Command {
	return noun("txn", "Get a transaction",
		"A transaction holds claims, evictions and releases that are committed together.",
		"  ohm txn get ID", txnGetCommand(a))
}

func txnGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show what became of a transaction",
		Long: `Show what became of a transaction: the claims that committed, at which revision, and
those that were refused, with the winner. It is put together from placements, ended
attempts and the conflict journal; a transaction of which none of them is kept any
more is beyond retention (exit code 4).`,
		Example: "  ohm txn get 01JNF3Y6M8Q4",
		Args:    named("the id of a transaction", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := a.cell()
			t, err := c.insight.GetTxn(cmd.Context(), &ohmv1.GetTxnRequest{Transaction: args[0]})
			if err != nil {
				return err
			}
			return a.show(view{
				json:  one(t),
				names: func() []string { return []string{t.Transaction} },
				table: func(p *printer) { txnDetail(p, t) },
			})
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func txnDetail(p *printer, t *ohmv1.TxnView) {
	claims := fmt.Sprintf("%d committed, %d refused", len(t.Committed), len(t.Refused))
	if t.Claims > 0 { // only placements know how many were proposed
		claims = fmt.Sprintf("%d: %s", t.Claims, claims)
	}
	p.pairs(
		[2]string{"transaction", t.Transaction}, [2]string{"scheduler", t.Scheduler}, [2]string{"instance", t.Instance},
		[2]string{"mode", t.Mode}, [2]string{"time", p.app.ago(t.Time)}, [2]string{"snapshot", number(t.SnapshotRevision)},
		[2]string{"claims", claims},
	)
	if len(t.Committed) > 0 {
		type row = *ohmv1.TxnClaim
		p.heading("committed:")
		columns(p, t.Committed,
			column[row]{title: "NAMESPACE", cell: row.GetNamespace, skip: !p.wide && oneNamespace(t.Committed, row.GetNamespace)},
			column[row]{title: "TASK", cell: row.GetTask},
			column[row]{title: "ATTEMPT", cell: func(c row) string { return number(c.Attempt) }},
			column[row]{title: "NODE", cell: row.GetNode},
			column[row]{title: "REVISION", cell: func(c row) string { return number(c.Revision) }},
			column[row]{title: "STATE", cell: row.GetState},
		)
	}
	if len(t.Refused) > 0 {
		p.heading("refused:")
		conflictTable(p, t.Refused)
	}
}
