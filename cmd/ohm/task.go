package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/resource"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func taskCommand(a *app) *cobra.Command {
	return noun("task", "List tasks, and what they use",
		"A task is one replica of a group: it lives and dies on one node.",
		"  ohm task list hello", taskListCommand(a), taskStatsCommand(a))
}

func taskListCommand(a *app) *cobra.Command {
	var node string
	var attempts bool
	cmd := &cobra.Command{
		Use:   "list [JOB]",
		Short: "List tasks and their attempts",
		Long: `List the tasks of a job, of a node, or of all jobs: the newest attempt of each, or
with --attempts the ended ones too.`,
		Example: `  ohm task list hello
  ohm task list --node n7 -o wide
  ohm task list train --attempts`,
		Args: named("the name of a job", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &ohmv1.ListTasksRequest{Namespace: a.client.Namespace, Node: node, Attempts: attempts}
			if len(args) > 0 {
				req.Job, req.Namespace = args[0], a.namespace()
			}
			return a.listTasks(cmd.Context(), req)
		},
	}
	cmd.Flags().StringVar(&node, "node", "", "only tasks on this node")
	cmd.Flags().BoolVar(&attempts, "attempts", false, "attempts that ended too")
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) listTasks(ctx context.Context, req *ohmv1.ListTasksRequest) error {
	c := a.cell()
	list, err := c.jobs.ListTasks(ctx, req)
	if err == nil && len(list.Tasks) == 0 {
		err = a.nothingThere(ctx, c, req)
	}
	if err != nil {
		if req.Job != "" {
			err = a.unknownJobs(ctx, c, err, req.Job)
		}
		return a.unknownNode(ctx, c, err, req.Node)
	}
	return a.show(view{
		json:  many(list.Tasks),
		names: namesOf(list.Tasks, (*ohmv1.TaskView).GetTask),
		table: func(p *printer) { taskTable(p, list.Tasks) },
	})
}

// nothingThere tells an empty answer from a question about a job or node that does
// not exist.
func (a *app) nothingThere(ctx context.Context, c *cell, req *ohmv1.ListTasksRequest) error {
	if req.Job != "" {
		if _, err := c.jobs.Get(ctx, &ohmv1.GetJobRequest{Namespace: req.Namespace, Job: req.Job}); err != nil {
			return err
		}
	}
	if req.Node != "" {
		if _, err := c.nodes.Get(ctx, &ohmv1.GetNodeRequest{Node: req.Node}); err != nil {
			return a.unknownNode(ctx, c, err, req.Node)
		}
	}
	a.note("no tasks")
	return nil
}

func taskTable(p *printer, tasks []*ohmv1.TaskView) {
	if len(tasks) == 0 {
		return
	}
	type row = *ohmv1.TaskView
	columns(p, tasks,
		column[row]{title: "NAMESPACE", cell: row.GetNamespace, skip: !p.wide && oneNamespace(tasks, row.GetNamespace)},
		column[row]{title: "TASK", cell: row.GetTask},
		column[row]{title: "ATTEMPT", cell: func(t row) string { return number(t.Attempt) }},
		column[row]{title: "RETRIES", cell: retriesText, skip: !slices.ContainsFunc(tasks, func(t row) bool { return t.RetriesSpent > 0 })},
		column[row]{title: "STATE", cell: row.GetState},
		column[row]{title: "READY", cell: row.GetReady, skip: !slices.ContainsFunc(tasks, func(t row) bool { return t.Ready != "" })},
		column[row]{title: "NODE", cell: row.GetNode},
		column[row]{title: "CAUSE", cell: row.GetCause},
		column[row]{title: "SINCE", cell: func(t row) string { return p.app.ago(t.Since) }},
		column[row]{title: "VERSION", cell: func(t row) string { return number(t.Version) }, skip: !p.wide},
		column[row]{title: "PID", cell: func(t row) string { return number(t.Pid) }, skip: !p.wide},
		column[row]{title: "PEAK", cell: func(t row) string { return peak(t) }, skip: !p.wide && !anyOOM(tasks)},
		column[row]{title: "GPUS", cell: func(t row) string { return shares(t.Gpus) }, skip: !p.wide},
		column[row]{title: "PORTS", cell: func(t row) string { return portsText(t.Ports) }, skip: !p.wide},
		column[row]{title: "TRANSACTION", cell: row.GetTransaction, skip: !p.wide},
		column[row]{title: "MESSAGE", cell: row.GetMessage, skip: !p.wide && !explained(tasks)},
	)
}

// retriesText is what a task has spent of the retries that it has: "2 of 3".
func retriesText(t *ohmv1.TaskView) string {
	if t.Retries == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", t.RetriesSpent, t.Retries)
}

// peak is the most memory that an ended attempt had, of its limit.
func peak(t *ohmv1.TaskView) string {
	switch {
	case t.MemoryPeakBytes == 0:
		return ""
	case t.MemoryLimitBytes == 0:
		return resource.RoundBytes(t.MemoryPeakBytes)
	}
	return resource.RoundBytes(t.MemoryPeakBytes) + " of " + resource.RoundBytes(t.MemoryLimitBytes)
}

func anyOOM(tasks []*ohmv1.TaskView) bool {
	return slices.ContainsFunc(tasks, func(t *ohmv1.TaskView) bool { return t.Cause == task.OOMKilled })
}

// portsText is ports as people write them: "debug=20017,http=8080".
func portsText(ports []*ohmv1.Port) string {
	var all []string
	for _, p := range ports {
		all = append(all, fmt.Sprintf("%s=%d", p.Name, p.Number))
	}
	return strings.Join(all, ",")
}

// explained says whether a message explains why a task failed, or why one that has a
// node does not start there, or what has befallen one that runs.
func explained(tasks []*ohmv1.TaskView) bool {
	for _, t := range tasks {
		if t.Message != "" && (t.State == "Failed" || t.State == "Lost" || t.State == "Assigned" || t.State == "Running") {
			return true
		}
	}
	return false
}
