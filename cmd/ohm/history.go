package main

import (
	"context"
	"fmt"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func jobHistoryCommand(a *app) *cobra.Command {
	var run int64
	cmd := &cobra.Command{
		Use:   "history JOB",
		Short: "List the runs of a job, or tell one of them",
		Long: `List the runs of a job, the newest first: how each ended and why. With --run one of them is
told with its attempts: where and when each was placed, started and ended, and how. Of
many attempts of a task the first five and the newest twenty are kept.

What is told of runs stays for a week after their end, also where the job's own records
have gone.`,
		Example: `  ohm job history hello
  ohm job history hello --run 2
  ohm job history hello -o json`,
		Args: named("the name of a job", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("run") && run < 1 {
				return refuse("--run is the number of a run, from 1")
			}
			return a.history(cmd.Context(), args[0], run)
		},
	}
	cmd.Flags().Int64Var(&run, "run", 0, "tell this run, with its attempts")
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) history(ctx context.Context, job string, run int64) error {
	c := a.cell()
	got, err := c.jobs.History(ctx, &ohmv1.HistoryRequest{Namespace: a.namespace(), Job: job, Run: run})
	if err != nil {
		if run > 0 {
			return err
		}
		return a.unknownJobs(ctx, c, err, job)
	}
	names := namesOf(got.Runs, func(r *ohmv1.RunView) string { return fmt.Sprint(r.Run) })
	if run > 0 && len(got.Runs) == 1 {
		return a.show(view{json: one(got.Runs[0]), names: names, table: func(p *printer) {
			runTable(p, got.Runs)
			attemptTable(p, got.Runs[0])
		}})
	}
	return a.show(view{json: many(got.Runs), names: names, table: func(p *printer) { runTable(p, got.Runs) }})
}

func runTable(p *printer, runs []*ohmv1.RunView) {
	type row = *ohmv1.RunView
	columns(p, runs,
		column[row]{title: "RUN", cell: func(r row) string { return fmt.Sprint(r.Run) }},
		column[row]{title: "STATE", cell: row.GetState},
		column[row]{title: "TASKS", cell: func(r row) string { return tally("batch", counts(r.Groups)) }},
		column[row]{title: "SUBMITTED", cell: func(r row) string { return p.app.ago(r.Submitted) }},
		column[row]{title: "TOOK", cell: func(r row) string {
			if r.Ended == nil {
				return ""
			}
			return span(r.Elapsed.AsDuration())
		}},
		column[row]{title: "AGAIN", cell: func(r row) string { return number(r.Again) }, skip: !p.wide},
		column[row]{title: "REQUEST", cell: row.GetRequestId, skip: !p.wide},
		column[row]{title: "WHY", cell: row.GetMessage},
	)
}

func attemptTable(p *printer, r *ohmv1.RunView) {
	if len(r.Attempts) == 0 {
		return
	}
	p.heading("attempts:")
	type row = *ohmv1.Attempt
	columns(p, r.Attempts,
		column[row]{title: "TASK", cell: row.GetTask},
		column[row]{title: "ATTEMPT", cell: func(t row) string { return fmt.Sprint(t.Attempt) }},
		column[row]{title: "STATE", cell: row.GetState},
		column[row]{title: "NODE", cell: row.GetNode},
		column[row]{title: "CAUSE", cell: row.GetCause},
		column[row]{title: "PLACED", cell: func(t row) string { return p.app.ago(t.Placed) }},
		column[row]{title: "STARTED", cell: func(t row) string { return p.app.ago(t.Started) }},
		column[row]{title: "ENDED", cell: func(t row) string { return p.app.ago(t.Ended) }},
	)
	if r.AttemptsLeftOut > 0 {
		p.linef("%d other attempts are not kept", r.AttemptsLeftOut)
	}
}
