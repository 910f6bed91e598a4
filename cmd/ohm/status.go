package main

import (
	"context"
	"fmt"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func statusCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status [JOB...]",
		Short: "Show how jobs are doing",
		Long: `Show the state of the jobs named, or of all jobs. Names are exact.

The state is derived from the cell state when you ask; -o json prints it as the API
has it: one object for one job named, otherwise an array.`,
		Example: `  ohm status
  ohm status hello
  ohm status hello -o json`,
		Args: named("the names of jobs", 0, -1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.status(cmd.Context(), args) },
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) status(ctx context.Context, names []string) error {
	c := a.cell()
	if len(names) == 0 {
		return a.listJobs(ctx, c)
	}
	// Those that are there are shown even if another is not.
	var found []*ohmv1.JobStatus
	var missing []string
	var last, err error
	for _, name := range names {
		got, err := c.jobs.Get(ctx, &ohmv1.GetJobRequest{Namespace: a.namespace(), Job: name})
		switch {
		case notFound(err):
			missing, last = append(missing, name), err
		case err != nil:
			return err
		default:
			found = append(found, got.Status)
		}
	}
	if len(names) == 1 && len(found) == 1 {
		err = a.show(view{json: one(found[0]), table: func(p *printer) { jobDetail(p, found[0]) }, names: jobNames(found)})
	} else if len(found) > 0 {
		err = a.showJobs(found)
	}
	if err == nil && last != nil {
		err = a.unknownJobs(ctx, c, last, missing...)
	}
	return err
}

func (a *app) listJobs(ctx context.Context, c *cell) error {
	list, err := c.jobs.List(ctx, &ohmv1.ListJobsRequest{Namespace: a.client.Namespace})
	if err != nil {
		return err
	}
	switch {
	case len(list.Jobs) > 0:
	case a.client.Namespace != "":
		a.note("no jobs in namespace %q", a.client.Namespace)
	default:
		a.note("no jobs; submit one with `ohm run FILE`")
	}
	return a.showJobs(list.Jobs)
}

func (a *app) showJobs(jobs []*ohmv1.JobStatus) error {
	return a.show(view{json: many(jobs), table: func(p *printer) { jobTable(p, jobs) }, names: jobNames(jobs)})
}

func jobNames(jobs []*ohmv1.JobStatus) func() []string {
	return namesOf(jobs, (*ohmv1.JobStatus).GetJob)
}

func jobTable(p *printer, jobs []*ohmv1.JobStatus) {
	if len(jobs) == 0 {
		return
	}
	type row = *ohmv1.JobStatus
	columns(p, jobs,
		column[row]{title: "NAMESPACE", cell: row.GetNamespace, skip: !p.wide && oneNamespace(jobs, row.GetNamespace)},
		column[row]{title: "JOB", cell: row.GetJob},
		column[row]{title: "KIND", cell: row.GetKind},
		column[row]{title: "STATE", cell: row.GetState},
		column[row]{title: "TASKS", cell: func(j row) string { return tally(j.Kind, counts(j.Groups)) }},
		column[row]{title: "SCHEDULER", cell: row.GetScheduler, skip: !p.wide},
		column[row]{title: "PRECEDENCE", cell: func(j row) string { return fmt.Sprint(j.Precedence) }, skip: !p.wide},
		column[row]{title: "VERSION", cell: func(j row) string { return number(j.Version) }, skip: !p.wide},
		column[row]{title: "SUBMITTED", cell: func(j row) string { return p.app.ago(j.Submitted) }},
		column[row]{title: "NOTE", cell: func(j row) string {
			if len(jobs) > 1 && !p.wide {
				return shortened(j.Message)
			}
			return j.Message
		}},
	)
}

// longNote is how many characters of a note stand in a table of many jobs.
const longNote = 90

// shortened cuts a long note, so that jobs keep a line each; the whole of it is in the
// status of that job alone.
func shortened(note string) string {
	if r := []rune(note); len(r) > longNote {
		return strings.TrimRight(string(r[:longNote-1]), " ") + "…"
	}
	return note
}

func jobDetail(p *printer, j *ohmv1.JobStatus) {
	jobTable(p, []*ohmv1.JobStatus{j})
	if len(j.Groups) < 2 && !p.wide {
		return
	}
	type row = *ohmv1.GroupCounts
	p.heading("groups:")
	columns(p, j.Groups,
		column[row]{title: "GROUP", cell: row.GetName},
		column[row]{title: "TASKS", cell: func(g row) string { return tally(j.Kind, g) }},
	)
}

// oneNamespace says whether a column of namespaces would say nothing: all of rows
// are in the default one.
func oneNamespace[R any](rows []R, namespace func(R) string) bool {
	for _, r := range rows {
		if namespace(r) != "default" {
			return false
		}
	}
	return true
}

func namesOf[R any](rows []R, name func(R) string) func() []string {
	return func() []string {
		names := make([]string, len(rows))
		for i, r := range rows {
			names[i] = name(r)
		}
		return names
	}
}
