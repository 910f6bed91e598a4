package main

import (
	"context"
	"strconv"
	"time"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func taskStatsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats JOB | JOB/GROUP | JOB/GROUP/INDEX",
		Short: "Show what running tasks use",
		Long: `Show what running tasks use, as their nodes count it: cores and memory now, and the
most in the last minutes (how many, is in WINDOW); the most memory since the start, with
page cache, beside the limit; and for how long a task was held back by its limit of cpu.
Nodes keep such figures for ten minutes, in memory.`,
		Example: `  ohm task stats web
  ohm task stats train/worker/3 -o json`,
		Args: named("a job, a group or a task: JOB, JOB/GROUP or JOB/GROUP/INDEX", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var task ohmv1.LogsRequest
			if err := readTask(args[0], &task); err != nil {
				return err
			}
			return a.taskStats(cmd.Context(), &ohmv1.StatsRequest{
				Namespace: a.namespace(), Job: task.Job, Group: task.Group, Index: task.Index, AnyIndex: task.AnyIndex,
			})
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) taskStats(ctx context.Context, req *ohmv1.StatsRequest) error {
	c := a.cell()
	list, err := c.jobs.Stats(ctx, req)
	if err != nil {
		return a.unknownJobs(ctx, c, err, req.Job)
	}
	if len(list.Tasks) == 0 {
		a.note("no such task runs now")
	}
	return a.show(view{
		json:  many(list.Tasks),
		names: namesOf(list.Tasks, (*ohmv1.TaskStats).GetTask),
		table: func(p *printer) { usageTable(p, list.Tasks) },
	})
}

func usageTable(p *printer, tasks []*ohmv1.TaskStats) {
	if len(tasks) == 0 {
		return
	}
	type row = *ohmv1.TaskStats
	of := func(say func(*ohmv1.Usage) string) func(row) string {
		return func(t row) string {
			if t.Usage == nil {
				return ""
			}
			return say(t.Usage)
		}
	}
	silent := func() bool {
		for _, t := range tasks {
			if t.Message != "" {
				return false
			}
		}
		return true
	}
	columns(p, tasks,
		column[row]{title: "TASK", cell: row.GetTask},
		column[row]{title: "ATTEMPT", cell: func(t row) string { return number(t.Attempt) }},
		column[row]{title: "NODE", cell: row.GetNode},
		column[row]{title: "CPU", cell: of(func(u *ohmv1.Usage) string { return cores(u.CpuMilli, (*ohmv1.Series).GetLast) })},
		column[row]{title: "AVG", cell: of(func(u *ohmv1.Usage) string { return cores(u.CpuMilli, (*ohmv1.Series).GetAvg) }), skip: !p.wide},
		column[row]{title: "MOST", cell: of(func(u *ohmv1.Usage) string { return cores(u.CpuMilli, (*ohmv1.Series).GetMax) })},
		column[row]{title: "MEMORY", cell: of(func(u *ohmv1.Usage) string { return resource.RoundBytes(u.MemoryBytes.GetLast()) })},
		column[row]{title: "PEAK", cell: of(func(u *ohmv1.Usage) string { return resource.RoundBytes(u.MemoryPeakBytes) })},
		column[row]{title: "LIMIT", cell: of(func(u *ohmv1.Usage) string { return limit(u.MemoryLimitBytes) })},
		column[row]{title: "HELD BACK", cell: of(func(u *ohmv1.Usage) string { return u.Throttled.AsDuration().Round(time.Millisecond).String() })},
		column[row]{title: "PROCESSES", cell: of(func(u *ohmv1.Usage) string { return strconv.FormatInt(u.Processes, 10) })},
		column[row]{title: "WINDOW", cell: of(func(u *ohmv1.Usage) string { return u.Window.AsDuration().Round(time.Second).String() })},
		column[row]{title: "MESSAGE", cell: row.GetMessage, skip: silent()},
	)
}

// cores is a part of a series of thousandths of a core; of one sample alone there is none.
func cores(s *ohmv1.Series, part func(*ohmv1.Series) int64) string {
	if s == nil {
		return ""
	}
	return resource.FormatCPU(part(s))
}

func limit(bytes int64) string {
	if bytes == 0 {
		return "none"
	}
	return resource.RoundBytes(bytes)
}
