package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func runCommand(a *app) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "run FILE...",
		Short: "Run jobs",
		Long: `Run the jobs in these files; - is the standard input. All of them are stored, or
none; more than 100 are sent in parts, each job after those that it follows.

A job that ends by itself (batch, ml) is run once more by each call: runs of a job are
numbered from 1, follow each other, and are kept (ohm job history). To change a run that
goes on is what ohm apply does. A live service or system job takes in what has changed.

--again runs a job once more as it was run before, by its name, without a file; with
--only-failed only those of its tasks that have not succeeded.

Each call has a request id. Sent again with the same id and the same content it is
the same run; other content under the same id is refused (exit code 5). ohm repeats
a request by itself where the answer got lost.

With --wait it ends when the jobs have: a batch or ml job when it is done, a service
or system job when all of its tasks run. The exit code is then the jobs' (0, or 1 if
one failed). After --timeout it ends with 6 and the jobs go on.`,
		Example: `  ohm run hello.yaml
  ohm run hello.yaml --wait --timeout 5m
  generate-job | ohm run - --request-id nightly-2026-03-04
  ohm run --again hello --only-failed`,
		Args: named("a job file, or - for the standard input", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (opts.onlyFailed || opts.of != 0) && !opts.again || opts.of < 0 {
				return refuse("--only-failed and --of, a number of a run, go with --again")
			}
			return a.submitFiles(cmd, args, opts)
		},
	}
	submitFlags(cmd, &opts)
	cmd.Flags().BoolVar(&opts.again, "again", false, "the argument is the name of a job: run it once more")
	cmd.Flags().Int64Var(&opts.of, "of", 0, "with --again: the run to do once more (default: the newest)")
	cmd.Flags().BoolVar(&opts.onlyFailed, "only-failed", false, "with --again: only tasks that have not succeeded")
	return cmd
}

// submitFlags are those of the verbs that submit files.
func submitFlags(cmd *cobra.Command, opts *runOptions) {
	cmd.Flags().BoolVar(&opts.wait, "wait", false, "wait for the jobs: batch and ml to end, service and system to run")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 0, "with --wait: give up waiting after this time (default: never)")
	cmd.Flags().StringVar(&opts.requestID, "request-id", "", "name of this run (default: a new ULID)")
	outputFlag(cmd, listFormats()...)
}

func (a *app) submitFiles(cmd *cobra.Command, files []string, opts runOptions) error {
	if cmd.Flags().Changed("timeout") && (!opts.wait || opts.timeout <= 0) {
		return refuse("--timeout is a positive time for --wait, such as 5m")
	}
	opts.namespaceGiven = cmd.Flags().Changed("namespace")
	return a.runJobs(cmd.Context(), files, opts)
}

type runOptions struct {
	again          bool
	of             int64 // 0: the newest
	onlyFailed     bool
	wait           bool
	timeout        time.Duration
	requestID      string
	namespaceGiven bool // on the command line
	apply          bool
	token          string
}

func (a *app) runJobs(ctx context.Context, files []string, opts runOptions) error {
	var jobs []*ohmv1.JobSpec
	var err error
	if opts.again {
		if len(files) > 1 {
			return refuse("--again takes the name of one job")
		}
	} else if jobs, err = a.readJobs(files, opts.namespaceGiven); err != nil {
		return err
	}
	for _, j := range jobs {
		if opts.wait && j.Schedule != nil {
			return refuse("job %s runs by its schedule, so that --wait would wait for ever; leave it out, or see `ohm job history %s`", j.Name, j.Name)
		}
	}
	if opts.requestID == "" {
		opts.requestID = ulid.MustNew(ulid.Timestamp(a.now()), rand.Reader).String()
	}
	c := a.cell()
	waiting := ctx
	if opts.timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeoutCause(ctx, opts.timeout, errWaitedEnough)
		defer cancel()
	}
	done, err := a.submit(waiting, func(ctx context.Context) (*ohmv1.SubmitResponse, error) {
		if opts.again {
			return c.jobs.Again(ctx, &ohmv1.AgainRequest{
				Namespace: a.namespace(), Job: files[0], Run: opts.of, OnlyFailed: opts.onlyFailed, RequestId: opts.requestID,
			})
		}
		return a.submitParts(ctx, c, jobs, opts)
	})
	if err != nil {
		if code := status.Code(err); a.link.connected.Load() && (code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled) {
			a.note("whether the jobs were stored is not known; to repeat without harm: --request-id %s", opts.requestID)
		}
		if context.Cause(waiting) == errWaitedEnough {
			return failf(exitTimedOut, "", "no answer within --timeout %s", opts.timeout)
		}
		if opts.again {
			return a.unknownJobs(ctx, c, err, files[0])
		}
		return err
	}
	for _, j := range done.Jobs {
		a.noteScaled(j)
		for _, notice := range j.Notices {
			a.note("job %s waits: %s", j.Job, notice)
		}
	}
	if !opts.wait {
		return a.showSubmitted(done, jobs)
	}
	return a.awaitJobs(waiting, c, done, opts.timeout)
}

// readJobs reads every file before it gives up on any, so that all faults are
// listed at once.
func (a *app) readJobs(files []string, namespaceGiven bool) ([]*ohmv1.JobSpec, error) {
	var jobs []*ohmv1.JobSpec
	var parsed []*jobspec.File
	var faults jobspec.Faults
	from := map[string]string{}
	for _, file := range files {
		name, data, err := a.readFile(file)
		if err != nil {
			return nil, refuse("the job file %s cannot be read: %v", name, err)
		}
		file, err := jobspec.ParseFile(name, data)
		if found := (jobspec.Faults)(nil); errors.As(err, &found) {
			faults = append(faults, found...)
			continue
		} else if err != nil {
			return nil, refuse("%v", err)
		}
		job := file.Job
		parsed = append(parsed, file)
		switch {
		case job.Namespace == "":
			job.Namespace = a.namespace()
		case namespaceGiven && job.Namespace != a.client.Namespace:
			return nil, refuse("%s is in namespace %q, and --namespace says %q", name, job.Namespace, a.client.Namespace)
		}
		key := job.Namespace + "/" + job.Name
		if other, twice := from[key]; twice {
			return nil, refuse("%s and %s are both job %q; each job can be submitted once", other, name, job.Name)
		}
		from[key] = name
		jobs = append(jobs, job)
	}
	if len(faults) == 0 {
		faults = jobspec.Circle(parsed)
	}
	if len(faults) > 0 {
		return nil, a.refuseFiles(faults)
	}
	return jobs, nil
}

func (a *app) readFile(file string) (name string, data []byte, err error) {
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(a.stdin, jobspec.MaxSize+1))
		return "stdin", data, err
	}
	f, err := os.Open(file)
	if err == nil {
		defer f.Close()
		// One byte more than is allowed shows that a file is too large.
		data, err = io.ReadAll(io.LimitReader(f, jobspec.MaxSize+1))
	}
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return file, data, err
}

// refuseFiles prints the faults for people, and for programs too if they asked.
func (a *app) refuseFiles(faults jobspec.Faults) error {
	a.note("%v", faults)
	if a.output == "json" || a.output == "yaml" {
		data, err := jsonText(faults)
		if err != nil {
			return err
		}
		if err := a.showJSON(data); err != nil {
			return err
		}
	}
	return refuse("nothing was submitted: %s", plural(len(faults), "fault"))
}

// resendFor bounds how long a request without an answer is repeated. The last try may take
// as long as a server waits for its store (5 s), and the caller should know within 10 s.
const resendFor = 4 * time.Second

// submit sends the request, and sends it again under the same id while answers get
// lost. Where no connection ever stood, there is nothing to repeat.
func (a *app) submit(ctx context.Context, send func(context.Context) (*ohmv1.SubmitResponse, error)) (*ohmv1.SubmitResponse, error) {
	giveUp := a.now().Add(resendFor)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		resp, err := send(ctx)
		if status.Code(err) != codes.Unavailable || !a.link.connected.Load() || a.now().After(giveUp) {
			return resp, err
		}
		if !sleep(ctx, pause) {
			return nil, err
		}
	}
}

// jobsAtOnce is how many jobs a server stores as one.
const jobsAtOnce = 100

// submitParts submits jobs, all or none where one request takes them; else in parts, each after
// those that it follows. What is sent again is the same run.
func (a *app) submitParts(ctx context.Context, c *cell, jobs []*ohmv1.JobSpec, opts runOptions) (*ohmv1.SubmitResponse, error) {
	all := &ohmv1.SubmitResponse{Jobs: make([]*ohmv1.Submitted, len(jobs))}
	order, _ := jobspec.Order(jobs)
	atOnce := jobsAtOnce
	if opts.token != "" { // it is about all of them
		atOnce = len(jobs)
	}
	for part := range slices.Chunk(order, atOnce) {
		req := &ohmv1.SubmitRequest{RequestId: opts.requestID, NewRun: !opts.apply, Apply: opts.apply, Token: opts.token}
		for _, i := range part {
			req.Jobs = append(req.Jobs, jobs[i])
		}
		if len(jobs) <= atOnce {
			req.Jobs = jobs
		}
		resp, err := c.jobs.Submit(ctx, req)
		if err != nil {
			if all.Revision > 0 {
				a.note("the jobs are more than %d, which are sent in parts: some are stored; to repeat without harm: --request-id %s", jobsAtOnce, opts.requestID)
			}
			return nil, err
		}
		if all.Revision = resp.Revision; len(jobs) <= atOnce {
			return resp, nil
		}
		for k, i := range part {
			all.Jobs[i] = resp.Jobs[k]
		}
	}
	return all, nil
}

// sleep pauses; it returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (a *app) showSubmitted(done *ohmv1.SubmitResponse, specs []*ohmv1.JobSpec) error {
	kinds := map[string]string{}
	for _, s := range specs {
		kinds[s.Namespace+"/"+s.Name] = s.Kind
	}
	err := a.show(view{
		json:  one(done),
		names: namesOf(done.Jobs, (*ohmv1.Submitted).GetJob),
		table: func(p *printer) {
			for _, j := range done.Jobs {
				word, kind := "submitted", kinds[j.Namespace+"/"+j.Job]
				switch {
				case j.Next != nil:
					p.linef("%s  %s  scheduled, next at %s", j.Job, kinds[j.Namespace+"/"+j.Job], j.Next.AsTime().Format(time.RFC3339))
					continue
				case j.Waits:
					word = "waits for the run before it"
				case j.Unchanged:
					word = "unchanged"
				}
				if kind != "" {
					kind += "  "
				}
				if j.Run == 0 || lasting(kinds[j.Namespace+"/"+j.Job]) {
					p.linef("%s  %sversion %d  %s", j.Job, kind, j.Version, word)
				} else {
					p.linef("%s  %srun %d  %s", j.Job, kind, j.Run, word)
				}
			}
		},
	})
	if err != nil || a.output == "name" || len(done.Jobs) == 0 {
		return err
	}
	a.note("see how it goes: %s", a.suggest("status", done.Jobs[0].Namespace, done.Jobs[0].Job))
	return nil
}

// suggest is a call of ohm that can be pasted into a shell.
func (a *app) suggest(verb, namespace, what string) string {
	s := fmt.Sprintf("ohm %s %s", verb, what)
	if namespace != "default" {
		s += " --namespace " + namespace
	}
	return "`" + s + "`"
}
