package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errWaitedEnough is the cause of a context that --timeout ended.
var errWaitedEnough = errors.New("waited for as long as --timeout says")

// verdict says what a job's status means to somebody who waits for it: over, and if
// so with which exit code.
func verdict(j *ohmv1.JobStatus) (code exitCode, over bool) {
	switch j.State {
	case "Succeeded":
		return exitDone, true
	case "Failed", "Skipped":
		return exitFailed, true
	case "Stopped":
		return exitCancelled, true
	}
	switch j.Rollout {
	case "Failed":
		return exitFailed, true
	case "Running", "Paused", "Reverting":
		return exitDone, false
	}
	c := counts(j.Groups)
	return exitDone, lasting(j.Kind) && j.State == "Running" && c.Running >= c.Count && c.Waiting == 0 && c.Starting == 0 && c.Unready == 0
}

// ended says whether nothing of a job runs any more.
func ended(j *ohmv1.JobStatus) bool {
	return j.State == "Succeeded" || j.State == "Failed" || j.State == "Stopped" || j.State == "Skipped"
}

// follow watches one job until over says so, and returns its last status. A cell
// that goes away for a while is asked again; the status so far comes with the error.
func (a *app) follow(ctx context.Context, c *cell, req *ohmv1.GetJobRequest, over func(*ohmv1.JobStatus) bool) (*ohmv1.JobStatus, error) {
	var last *ohmv1.JobStatus
	var lost time.Time // since when nothing is heard; zero: it is
	for {
		err := watch(ctx, c, req, func(s *ohmv1.JobStatus) bool {
			last, lost = s, time.Time{}
			return over(s)
		})
		if lost.IsZero() {
			lost = a.now()
		}
		switch {
		case err == nil:
			return last, nil
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err != io.EOF && status.Code(err) != codes.Unavailable, a.now().Sub(lost) > answerWithin:
			return last, err
		}
		if !sleep(ctx, 250*time.Millisecond) {
			return last, ctx.Err()
		}
	}
}

// watch calls over with each status until it is true (nil) or the stream ends.
func watch(ctx context.Context, c *cell, req *ohmv1.GetJobRequest, over func(*ohmv1.JobStatus) bool) error {
	ctx, cancel := detach(ctx)
	defer cancel()
	stream, err := c.jobs.Watch(ctx, req)
	for err == nil {
		var s *ohmv1.JobStatus
		if s, err = stream.Recv(); err == nil && over(s) {
			return nil
		}
	}
	return err
}

// awaitJobs waits for the jobs just submitted, prints how they ended and returns
// the worst of it.
func (a *app) awaitJobs(ctx context.Context, c *cell, done *ohmv1.SubmitResponse, timeout time.Duration) error {
	progress := newProgress(a, len(done.Jobs))
	last := make([]*ohmv1.JobStatus, len(done.Jobs))
	errs := make([]error, len(done.Jobs))
	var g errgroup.Group
	for i, sub := range done.Jobs {
		g.Go(func() error {
			last[i], errs[i] = a.follow(ctx, c, &ohmv1.GetJobRequest{Namespace: sub.Namespace, Job: sub.Job, Run: sub.Run}, func(s *ohmv1.JobStatus) bool {
				if s.Version < sub.Version || s.Revision < done.Revision {
					return false // from before the submission
				}
				progress.set(i, s)
				_, over := verdict(s)
				return over || changed(sub, s) && s.Rollout != "Reverting"
			})
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, one for each job
	progress.clear()
	if err := a.showOutcome(last); err != nil {
		return err
	}
	var worst *fault
	for i, sub := range done.Jobs {
		var f *fault
		if errs[i] != nil {
			f = a.waitFault(ctx, sub, last[i], errs[i], timeout)
		} else {
			f = a.outcomeFault(ctx, c, sub, last[i])
		}
		if f == nil {
			continue
		}
		if worst == nil || f.code == exitFailed && worst.code != exitFailed {
			worst, f = f, worst
		}
		if f != nil { // report prints one fault; the others are printed here
			a.note("ohm: %v", f)
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// changed says whether what was submitted is not what goes on: another version of a job that has
// no runs of its own has taken its place.
func changed(sub *ohmv1.Submitted, is *ohmv1.JobStatus) bool {
	return is.Version > sub.Version && (sub.Run == 0 || lasting(is.Kind))
}

// waitFault says why the waiting ended before the job did.
func (a *app) waitFault(ctx context.Context, sub *ohmv1.Submitted, last *ohmv1.JobStatus, err error, timeout time.Duration) *fault {
	state := "its state is not known"
	if last != nil {
		state = strings.TrimSuffix("it is "+last.State+": "+last.Message, ": ")
	}
	next := "see " + a.suggest("status", sub.Namespace, sub.Job) + ", or end it with " + a.suggest("stop", sub.Namespace, sub.Job)
	switch {
	case context.Cause(ctx) == errWaitedEnough:
		return failf(exitTimedOut, next, "job %s goes on after --timeout %s; %s", sub.Job, timeout, state)
	case ctx.Err() != nil:
		return failf(exitCancelled, next, "no longer waiting for job %s, which goes on; %s", sub.Job, state)
	case notFound(err):
		return failf(exitNotFound, "", "job %s is gone", sub.Job)
	}
	f := a.explainError(ctx, err)
	return failf(f.code, f.next, "lost sight of job %s, which goes on: %s", sub.Job, f.what)
}

// outcomeFault says in which way a job did not do what was hoped for; nil if it did.
func (a *app) outcomeFault(ctx context.Context, c *cell, sub *ohmv1.Submitted, last *ohmv1.JobStatus) *fault {
	if last.Version > sub.Version && last.Rollout == "Reverted" {
		return failf(exitRolledBack, "see "+a.suggest("status", sub.Namespace, sub.Job), "job %s went back to what it was before: %s", sub.Job, last.RolloutMessage)
	}
	if last.Version > sub.Version && last.Rollout == "Failed" {
		return failf(exitFailed, "see "+a.suggest("status", sub.Namespace, sub.Job), "job %s became version %d meanwhile, and that update has failed: %s", sub.Job, last.Version, last.RolloutMessage)
	}
	if changed(sub, last) {
		return failf(exitConflict, "see "+a.suggest("status", sub.Namespace, sub.Job), "job %s was submitted again meanwhile, as version %d", sub.Job, last.Version)
	}
	if last.State == "Skipped" {
		return failf(exitFailed, "", "job %s was skipped: %s", sub.Job, last.Message)
	}
	switch code, _ := verdict(last); code {
	case exitFailed:
		what, logs := a.firstFailure(ctx, c, sub)
		if last.Message != "" {
			what = ": " + last.Message
		}
		return failf(code, "see "+a.suggest("explain", sub.Namespace, sub.Job)+" and "+a.suggest("logs", sub.Namespace, logs), "job %s failed%s", sub.Job, what)
	case exitCancelled:
		return failf(code, "", "job %s was stopped", sub.Job)
	}
	return nil
}

// firstFailure names a task that failed, if the cell still says so.
func (a *app) firstFailure(ctx context.Context, c *cell, sub *ohmv1.Submitted) (what, logs string) {
	list, err := c.jobs.ListTasks(ctx, &ohmv1.ListTasksRequest{Namespace: sub.Namespace, Job: sub.Job})
	if err == nil {
		for _, t := range list.Tasks {
			if t.State == "Failed" || t.State == "Lost" {
				return fmt.Sprintf(": %s %s", t.Task, t.Cause), t.Task
			}
		}
	}
	return "", sub.Job
}

// showOutcome prints the last status of each job that has one.
func (a *app) showOutcome(last []*ohmv1.JobStatus) error {
	var known []*ohmv1.JobStatus
	for _, s := range last {
		if s != nil {
			known = append(known, s)
		}
	}
	if len(known) == 0 {
		return nil
	}
	v := view{json: many(known), names: jobNames(known), table: func(p *printer) {
		for _, s := range known {
			p.linef("%s", outcomeLine(s))
		}
	}}
	if len(last) == 1 {
		v.json = one(known[0])
	}
	return a.show(v)
}

// outcomeLine is a job in one line: "hello  batch  4/4 succeeded  1.9s".
func outcomeLine(j *ohmv1.JobStatus) string {
	line := fmt.Sprintf("%s  %s  %s", j.Job, j.Kind, tally(j.Kind, counts(j.Groups)))
	if j.Elapsed != nil {
		line += "  " + span(j.Elapsed.AsDuration())
	}
	return line
}

// progress is one line on a terminal, written over and over; elsewhere nothing.
type progress struct {
	app *app

	mu   sync.Mutex
	last []*ohmv1.JobStatus
}

func newProgress(a *app, jobs int) *progress {
	return &progress{app: a, last: make([]*ohmv1.JobStatus, jobs)}
}

func (p *progress) set(i int, s *ohmv1.JobStatus) {
	if !p.app.terminal {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[i] = s
	line := strings.TrimSuffix(outcomeLine(s)+"  "+s.Message, "  ")
	if n := len(p.last); n > 1 {
		over := 0
		for _, s := range p.last {
			if s == nil {
				continue
			}
			if _, is := verdict(s); is {
				over++
			}
		}
		line = fmt.Sprintf("%d/%d jobs  %s", over, n, line)
	}
	fmt.Fprint(p.app.stderr, "\r\x1b[K"+oneLine(line))
}

func (p *progress) clear() {
	if p.app.terminal {
		fmt.Fprint(p.app.stderr, "\r\x1b[K")
	}
}

// oneLine cuts text to what can be written over again.
func oneLine(s string) string {
	line := []rune(strings.ReplaceAll(plainText(s), "\n", " "))
	return string(line[:min(len(line), 78)])
}
