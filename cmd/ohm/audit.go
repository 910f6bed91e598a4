package main

import (
	"fmt"

	"github.com/ohmcell/ohm/cellstate/audit"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func auditCommand(a *app) *cobra.Command {
	p := &part{a: a}
	var follow bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check the cell's history against its promises",
		Long: `Replay every revision that the store still has, and check at each of them what a
transaction promises: no node beyond its capacity, one placement for a slot, no part
of an atomic transaction, and the rest. It says from which revision to which it
looked, and exits with 1 if a promise was broken.

With --follow it goes on with each revision as it comes, until it is interrupted, and
exits with 1 at the first broken promise, or at a gap: revisions that it cannot see any
more. It reads the store itself: it is told where that is (--etcd) or asks the server at
--address.`,
		Example: `  ohm audit
  ohm audit --follow --etcd 10.0.0.1:2379
  ohm audit -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if follow {
				return a.followAudit(cmd, p)
			}
			if len(p.store.Endpoints) > 0 {
				return refuse("--etcd is for --follow; without it, the server audits")
			}
			c := a.cell()
			r, err := c.insight.Audit(cmd.Context(), &ohmv1.AuditRequest{})
			if err != nil {
				return err
			}
			return a.showAudit(r)
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with each revision as it comes")
	p.etcdFlags(cmd.Flags())
	outputFlag(cmd, "table", "wide", "json", "yaml")
	return cmd
}

// followAudit audits what the store still has, and then each revision as it comes.
func (a *app) followAudit(cmd *cobra.Command, p *part) error {
	ctx := cmd.Context()
	if len(p.store.Endpoints) == 0 {
		if err := p.discoverStore(cmd); err != nil {
			return err
		}
	}
	store, err := p.store.Reader(ctx)
	if err != nil {
		return p.ended(ctx, err)
	}
	defer store.Close()
	oldest, present, err := store.History(ctx)
	if err != nil {
		return p.ended(ctx, err)
	}
	a.note("following from revision %d; the present one is %d", oldest.Revision(), present)
	auditor := audit.New(oldest)
	ended := auditor.Follow(ctx, store, nil)
	if err := a.showAudit(auditor.Report()); err != nil || ended == nil {
		return err
	}
	return failf(exitFailed, "", "%v", ended)
}

// showAudit prints a report, and fails if something was broken.
func (a *app) showAudit(r *ohmv1.AuditResponse) error {
	if err := a.show(view{json: one(r), table: func(p *printer) { auditReport(p, r) }}); err != nil {
		return err
	}
	if n := len(r.Violations); n > 0 {
		return failf(exitFailed, "", "%s of the cell's promises", plural(n, "violation"))
	}
	return nil
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
