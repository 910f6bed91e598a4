package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/pkg/constraint"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func jobCommand(a *app) *cobra.Command {
	return noun("job", "List jobs, get a job as stored, its runs, steer its update, scale it, spread it again",
		"Jobs are what users submit: groups of tasks, and a kind.",
		"  ohm job list\n  ohm job get hello -o yaml\n  ohm job scale web 30\n  ohm job revert web",
		append(rollCommands(a), jobListCommand(a), jobGetCommand(a), jobHistoryCommand(a), jobScaleCommand(a), jobEndpointsCommand(a), jobRebalanceCommand(a))...)
}

func jobListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs",
		Long:  "List the jobs of the namespace, or of all namespaces if none is given.",
		Example: `  ohm job list
  ohm job list --namespace vision -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.cell()
			return a.listJobs(cmd.Context(), c)
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func jobGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get JOB",
		Short: "Show a job as it is stored",
		Long: `Show a job as it is stored, with every default filled in. -o json and -o yaml print
the stored spec, as the API has it.`,
		Example: "  ohm job get hello -o yaml",
		Args:    named("the name of a job", 1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.getJob(cmd.Context(), args[0]) },
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) getJob(ctx context.Context, name string) error {
	c := a.cell()
	got, err := c.jobs.Get(ctx, &ohmv1.GetJobRequest{Namespace: a.namespace(), Job: name})
	if err != nil {
		return a.unknownJobs(ctx, c, err, name)
	}
	return a.show(view{
		json:  one(got.GetJob().GetSpec()),
		names: func() []string { return []string{got.GetJob().GetSpec().GetName()} },
		table: func(p *printer) { storedJob(p, got.GetJob()) },
	})
}

// retryText is what a job says of further attempts: "3; never after exit 42; nodeLoss spends one".
func retryText(s *ohmv1.JobSpec) string {
	if s.GetStartOnce() {
		return "never"
	}
	text := number(s.GetRetries())
	retry := s.GetRetry()
	if len(retry.GetFatal()) > 0 {
		text += "; never after exit " + strings.Trim(fmt.Sprint(retry.Fatal), "[]")
	}
	if len(retry.GetOnly()) > 0 {
		text += "; only after exit " + strings.Trim(fmt.Sprint(retry.Only), "[]")
	}
	if len(retry.GetSpend()) > 0 {
		text += "; also spent by " + strings.Join(retry.Spend, ", ")
	}
	if retry.GetFirst() != nil {
		text += "; first after " + span(retry.First.AsDuration())
	}
	if retry.GetMost() != nil {
		text += "; at most after " + span(retry.Most.AsDuration())
	}
	return strings.TrimPrefix(text, "; ")
}

// disruptionText is a job's disruption budget as people read it.
func disruptionText(d *ohmv1.Disruption) string {
	switch {
	case d == nil:
		return ""
	case d.GetMaxUnavailablePercent() > 0:
		return fmt.Sprintf("at most %d%% of a group unavailable", d.GetMaxUnavailablePercent())
	}
	return fmt.Sprintf("at most %d of a group unavailable", d.GetMaxUnavailable())
}

func storedJob(p *printer, j *ohmv1.Job) {
	s := j.GetSpec()
	stop := strings.TrimSpace(s.GetStop().GetSignal())
	if grace := s.GetStop().GetGrace(); grace != nil {
		stop += ", killed after " + span(grace.AsDuration())
	}
	var gang, maxRuntime, stopped, done string
	if g := s.GetGang(); g != nil {
		gang = "all tasks together"
		if g.Min > 0 {
			gang = fmt.Sprintf("at least %d tasks together", g.Min)
		}
		if g.Within != "" {
			gang += " within one " + g.Within
		}
		if g.PreferWithin != "" {
			gang += ", best within one " + g.PreferWithin
		}
		if g.Timeout != nil {
			gang += fmt.Sprintf("; after %s: %s", span(g.Timeout.AsDuration()), g.OnTimeout)
		}
		if b := g.WhenBroken; b.GetAfter() != nil {
			gang += fmt.Sprintf("; broken for %s: %s", span(b.After.AsDuration()), b.Then)
		} else if b != nil {
			gang += "; broken: " + b.Then
		}
	}
	if s.GetMaxRuntime() != nil {
		maxRuntime = span(s.MaxRuntime.AsDuration())
	}
	if j.GetStopped() {
		stopped = strings.TrimSpace("yes " + p.app.ago(j.StopTime))
	}
	if j.GetDone() != nil {
		done = strings.TrimSpace(j.Done.State + " " + p.app.ago(j.Done.Time))
	}
	silent := s.GetWhenSilent().GetThen()
	if after := s.GetWhenSilent().GetAfter(); after != nil {
		silent += " after " + span(after.AsDuration())
	}
	p.pairs(
		[2]string{"job", s.GetName()}, [2]string{"namespace", s.GetNamespace()}, [2]string{"kind", s.GetKind()},
		[2]string{"scheduler", s.GetScheduler()}, [2]string{"precedence", fmt.Sprint(s.GetPrecedence())},
		[2]string{"labels", mapText(s.GetLabels())}, [2]string{"gang", gang},
		[2]string{"retries", retryText(s)}, [2]string{"max runtime", maxRuntime}, [2]string{"stop", stop}, [2]string{"when silent", silent},
		[2]string{"disruption", disruptionText(s.GetDisruption())},
		[2]string{"run", number(j.GetRun())}, [2]string{"version", number(j.GetVersion())}, [2]string{"request id", j.GetRequestId()},
		[2]string{"submitted", p.app.ago(j.GetSubmitTime())}, [2]string{"stopped", stopped}, [2]string{"done", done},
	)
	for _, g := range s.GetGroups() {
		p.heading("group %s:", g.Name)
		count := fmt.Sprint(g.Count) + scaledText(j.GetScaled(), g.Name)
		if s.GetKind() == "system" {
			count = "one for each eligible node"
		}
		var conditions []string
		for _, c := range g.Constraints {
			conditions = append(conditions, constraint.Text(c))
		}
		p.pairs(append([][2]string{
			{"  count", count}, {"  command", commandLine(g.Command)}, {"  env", mapText(g.Env)},
			{"  resources", amounts(g.Resources)}, {"  gpus", gpuRequest(g.Gpus)},
			{"  constraints", strings.Join(conditions, "; ")},
		}, shapePairs(g)...)...)
	}
}

// commandLine quotes what a shell would split.
func commandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n\"'$`\\*?;&|<>()") {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
