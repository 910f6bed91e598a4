package main

import (
	"fmt"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func auditCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check the cell's history against its promises",
		Long: `Replay every revision that the store still has, and check at each of them what a
transaction promises: no node beyond its capacity, one placement for a slot, no part
of an atomic transaction, and the rest. It says from which revision to which it
looked, and exits with 1 if a promise was broken.`,
		Example: `  ohm audit
  ohm audit -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.dial()
			if err != nil {
				return err
			}
			defer c.close()
			r, err := c.insight.Audit(cmd.Context(), &ohmv1.AuditRequest{})
			if err != nil {
				return err
			}
			if err := a.show(view{json: one(r), table: func(p *printer) { auditReport(p, r) }}); err != nil {
				return err
			}
			if n := len(r.Violations); n > 0 {
				return failf(exitFailed, "", "%s of the cell's promises", plural(n, "violation"))
			}
			return nil
		},
	}
	outputFlag(cmd, "table", "wide", "json", "yaml")
	return cmd
}

func auditReport(p *printer, r *ohmv1.AuditResponse) {
	found := "no violation"
	if n := len(r.Violations); n > 0 {
		found = plural(n, "violation")
	}
	p.linef("revisions %d to %d: %s, %s, %s; %s", r.FromRevision, r.ToRevision,
		plural(int(r.Revisions), "revision"), plural(int(r.Transactions), "transaction"), plural(int(r.Placements), "placement"), found)
	if len(r.Violations) == 0 {
		return
	}
	type row = *ohmv1.Violation
	p.heading("violations:")
	columns(p, r.Violations,
		column[row]{title: "REVISION", cell: func(v row) string { return fmt.Sprint(v.Revision) }},
		column[row]{title: "PROMISE", cell: row.GetLaw},
		column[row]{title: "KEY", cell: row.GetKey},
		column[row]{title: "DETAIL", cell: row.GetDetail},
	)
}
