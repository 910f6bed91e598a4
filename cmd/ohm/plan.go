package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func planCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan FILE...",
		Short: "Say what an apply would change",
		Long: `Say what ohm apply would make of the jobs in these files; - is the standard input. Nothing is
changed.

For each job: the fields that differ from what stands, which tasks start, stop, stay or are
started anew and why, and where the scheduler that owns the job would place them now, tried by its
own code on the cell as it is. Each job is tried by itself, as if what it ends had ended.

The exit code is 0 where a plan could be made, whether its tasks find nodes or not: that is in the
JSON, as placed and wanted. With the token that is printed, ohm apply does what was planned or
nothing.`,
		Example: `  ohm plan web.yaml
  ohm plan web.yaml cache.yaml -o json
  ohm apply web.yaml --token $(ohm plan web.yaml -o name)`,
		Args: named("a job file, or - for the standard input", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.plan(cmd.Context(), args, cmd.Flags().Changed("namespace"))
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) plan(ctx context.Context, files []string, namespaceGiven bool) error {
	jobs, err := a.readJobs(files, namespaceGiven)
	if err != nil {
		return err
	}
	c := a.cell()
	plan, err := c.insight.Plan(ctx, &ohmv1.PlanRequest{Jobs: jobs})
	if err != nil {
		return err
	}
	err = a.show(view{
		json:  one(plan),
		names: func() []string { return []string{plan.Token} },
		table: func(p *printer) {
			for _, j := range plan.Jobs {
				planText(p, j)
			}
		},
	})
	if err != nil || a.output == "name" || a.output == "json" || a.output == "yaml" {
		return err
	}
	in := ""
	if namespaceGiven {
		in = " --namespace " + a.client.Namespace
	}
	a.note("to do this and nothing else: ohm apply %s%s --token %s", commandLine(files), in, plan.Token)
	return nil
}

// planText is the plan of one job for people.
func planText(p *printer, j *ohmv1.JobPlan) {
	switch {
	case j.Unchanged:
		p.linef("%s  %s  version %d  unchanged", j.Job, j.Kind, j.Version)
	case j.Was == 0:
		p.linef("%s  %s  new", j.Job, j.Kind)
	default:
		p.linef("%s  %s  version %d, was %d (%s)", j.Job, j.Kind, j.Version, j.Was, j.WasState)
	}
	for _, s := range j.Scaled {
		if s.Count != s.FileCount {
			p.linef("  groups[%s].count %d (scaled), file says %d", s.Group, s.Count, s.FileCount)
		}
	}
	if j.Was > 0 {
		for _, c := range j.Changes {
			p.linef("  %s: %s -> %s", c.Field, orNone(c.Was), orNone(c.Is))
		}
	}
	for _, e := range j.Effects {
		line := fmt.Sprintf("  %s: %s %s (%s)", e.Group, e.Action, plural(int(e.Tasks), "task"), e.Indexes)
		if e.Why != "" {
			line += ", " + e.Why
		}
		p.linef("%s", line)
	}
	for _, n := range j.Notices {
		p.linef("  %s", n)
	}
	if j.Placement != nil {
		placementText(p, j.Placement)
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func placementText(p *printer, is *ohmv1.PlacementPlan) {
	if is.Problem != "" {
		p.linef("  where they would go is not known: %s", is.Problem)
	}
	for _, g := range is.Groups {
		if g.Wanted == 0 {
			continue
		}
		nodes, victims := map[string]bool{}, 0
		for _, c := range g.Chosen {
			nodes[c.Node] = true
			victims += len(c.Victims)
		}
		line := fmt.Sprintf("  %s: %d of %s would be placed now", g.Group, g.Placed, plural(int(g.Wanted), "task"))
		if len(g.Chosen) == 1 {
			line += ", on node " + g.Chosen[0].Node
		} else if len(nodes) > 0 && g.MoreChosen == 0 {
			line += ", on " + plural(len(nodes), "node")
		}
		if victims > 0 {
			line += ", evicting " + plural(victims, "task")
		}
		p.linef("%s", line)
		if g.Message != "" {
			p.linef("    %s", g.Message)
		}
	}
}
