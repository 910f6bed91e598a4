package main

import (
	"fmt"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func schedulerCommand(a *app) *cobra.Command {
	return runsScheduler(a, noun("scheduler", "List schedulers",
		"Schedulers place the tasks of the jobs that name them: each by itself, over one shared cell state.",
		"  ohm scheduler list", schedulerListCommand(a), schedulerCheckCommand(a)))
}

func schedulerListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List schedulers",
		Long:    "List the schedulers that jobs can name: whether each is live, and how much waits for it.",
		Example: "  ohm scheduler list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.cell()
			list, err := c.cell.ListSchedulers(cmd.Context(), &ohmv1.ListSchedulersRequest{})
			if err != nil {
				return err
			}
			return a.show(view{
				json:  many(list.Schedulers),
				names: namesOf(list.Schedulers, (*ohmv1.SchedulerView).GetScheduler),
				table: func(p *printer) { schedulerTable(p, list.Schedulers) },
			})
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func schedulerTable(p *printer, schedulers []*ohmv1.SchedulerView) {
	type row = *ohmv1.SchedulerView
	columns(p, schedulers,
		column[row]{title: "SCHEDULER", cell: row.GetScheduler},
		column[row]{title: "POLICY", cell: row.GetPolicy},
		column[row]{title: "STATE", cell: row.GetState},
		column[row]{title: "INSTANCES", cell: func(s row) string { return fmt.Sprint(len(s.Instances)) }},
		column[row]{title: "JOBS", cell: func(s row) string { return fmt.Sprint(s.Jobs) }},
		column[row]{title: "WAITING", cell: func(s row) string { return fmt.Sprint(s.Waiting) }},
		column[row]{title: "SINCE", cell: func(s row) string { return p.app.ago(s.Since) }},
		column[row]{title: "IDS", cell: func(s row) string { return strings.Join(s.Instances, ",") }, skip: !p.wide},
	)
}
