package main

import (
	"context"
	"fmt"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func stopCommand(a *app) *cobra.Command {
	var all, wait bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "stop JOB...",
		Short: "Stop jobs",
		Long: `Stop the jobs named, or with --all every job of the namespace (of all namespaces if
none is given). Names are exact. Their tasks get the job's stop signal, and after its
grace time they are killed. ohm stop does not wait for that unless told to with --wait.`,
		Example: `  ohm stop hello
  ohm stop web api --wait --timeout 1m
  ohm stop --all`,
		Args: named("the names of jobs, or --all", 0, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return refuse("`ohm stop` needs the names of jobs, or --all; not both")
			}
			if cmd.Flags().Changed("timeout") && (!wait || timeout <= 0) {
				return refuse("--timeout is a positive time for --wait, such as 1m")
			}
			return a.stop(cmd.Context(), args, wait, timeout)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "stop every job")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until nothing of the jobs runs any more")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: give up waiting after this time (default: never)")
	outputFlag(cmd, listFormats()...)
	return cmd
}

// stop stops the jobs named; without names all of them.
func (a *app) stop(ctx context.Context, names []string, wait bool, timeout time.Duration) error {
	c := a.cell()
	req := &ohmv1.StopJobsRequest{Namespace: a.namespace(), Jobs: names}
	if len(names) == 0 {
		req = &ohmv1.StopJobsRequest{Namespace: a.client.Namespace, All: true}
	}
	resp, err := c.jobs.Stop(ctx, req)
	if err != nil {
		return a.unknownJobs(ctx, c, err, names...)
	}
	if len(resp.Jobs) == 0 {
		a.note("no jobs to stop")
	}
	if !wait {
		return a.showJobs(resp.Jobs)
	}
	return a.awaitEnd(ctx, c, resp.Jobs, timeout)
}

// awaitEnd waits until each of jobs has ended, in whatever way.
func (a *app) awaitEnd(ctx context.Context, c *cell, jobs []*ohmv1.JobStatus, timeout time.Duration) error {
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, timeout, errWaitedEnough)
		defer cancel()
	}
	var failure error
	for i, j := range jobs {
		if ended(j) {
			continue
		}
		last, err := a.follow(waiting, c, &ohmv1.GetJobRequest{Namespace: j.Namespace, Job: j.Job}, ended)
		if last != nil {
			jobs[i] = last
		}
		if err != nil && !notFound(err) { // a job that is gone has ended
			failure = err
			break
		}
	}
	if err := a.showJobs(jobs); err != nil {
		return err
	}
	if context.Cause(waiting) == errWaitedEnough && failure != nil {
		return failf(exitTimedOut, "`ohm task list` shows what still runs", "not everything has ended after --timeout %s", timeout)
	}
	if ctx.Err() != nil && failure != nil {
		return failf(exitCancelled, "", "no longer waiting; %s", fmt.Sprintf("the stop of %s goes on", plural(len(jobs), "job")))
	}
	return failure
}
