package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func jobScaleCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scale JOB[/GROUP] COUNT",
		Short: "Set how many tasks a service has",
		Long: `Set how many tasks a group of a live service has. Nothing is started anew: tasks are added, or
those with the highest indexes stop.

The count stays when the job is submitted again, for as long as the count in its file is the one
that it had: a new image does not undo it. Another count in the file does, and so does a stop.`,
		Example: `  ohm job scale web 30
  ohm job scale shop/cache 3`,
		Args: named("the name of a job, or JOB/GROUP, and a number", 2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			count, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || count < 0 {
				return refuse("%q is not a number of tasks, 0 or more", args[1])
			}
			job, group, of := strings.Cut(args[0], "/")
			if job == "" || of && group == "" || strings.Contains(group, "/") {
				return refuse("%q is not JOB or JOB/GROUP", args[0])
			}
			return a.scale(cmd.Context(), &ohmv1.ScaleRequest{Namespace: a.namespace(), Job: job, Group: group, Count: int32(count)})
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) scale(ctx context.Context, req *ohmv1.ScaleRequest) error {
	c := a.cell()
	is, err := c.jobs.Scale(ctx, req)
	if err != nil {
		return a.unknownJobs(ctx, c, err, req.Job)
	}
	return a.show(view{
		json:  one(is),
		names: func() []string { return []string{is.Job} },
		table: func(p *printer) {
			was := fmt.Sprintf("was %d", is.Was)
			if is.Unchanged {
				was = "unchanged"
			}
			p.linef("%s/%s  count %d (%s)  version %d", is.Job, is.Group, is.Count, was, is.Version)
		},
	})
}

// scaledText says of a group's count that it is not the one of the file; empty if it is.
func scaledText(scaled []*ohmv1.Scaled, group string) string {
	for _, s := range scaled {
		if s.Group == group && s.Count != s.FileCount {
			return fmt.Sprintf(" (scaled; the file says %d)", s.FileCount)
		}
	}
	return ""
}

// noteScaled says of jobs just submitted which counts are not those of their files.
func (a *app) noteScaled(j *ohmv1.Submitted) {
	for _, s := range j.Scaled {
		if s.Count != s.FileCount {
			a.note("job %s: group %s has count %d (scaled), its file says %d; to go back: ohm job scale %s/%s %d", j.Job, s.Group, s.Count, s.FileCount, j.Job, s.Group, s.FileCount)
		}
	}
}
