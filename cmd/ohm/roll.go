package main

import (
	"context"

	"github.com/spf13/cobra"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// rollCommands say how the update of a service goes on.
func rollCommands(a *app) (all []*cobra.Command) {
	for _, c := range []struct{ action, short, long string }{
		{"pause", "Let an update do nothing more", `Let the update of a service do nothing more: tasks stay of the version that they are of,
and one that ends is replaced by one of the newest version.`},
		{"resume", "Let an update go on", "Let the update of a service go on that was paused, or that has failed. Its deadline begins anew."},
		{"promote", "Let all tasks follow the canary", `Let the other tasks of a service follow its canary to the new version. It is refused while the
canary is not well.`},
		{"revert", "Go back to the version before", `Go back to the newest version of which all tasks were well. Tasks that are still of that
version stay; nobody has to promote it.`},
	} {
		all = append(all, &cobra.Command{
			Use: c.action + " JOB", Short: c.short, Long: c.long,
			Example: "  ohm job " + c.action + " web",
			Args:    named("the name of a job", 1, 1),
			RunE:    func(cmd *cobra.Command, args []string) error { return a.roll(cmd.Context(), args[0], c.action) },
		})
		outputFlag(all[len(all)-1], listFormats()...)
	}
	return all
}

func (a *app) roll(ctx context.Context, name, action string) error {
	c := a.cell()
	is, err := c.jobs.Roll(ctx, &ohmv1.RollRequest{Namespace: a.namespace(), Job: name, Action: action})
	if err != nil {
		return a.unknownJobs(ctx, c, err, name)
	}
	return a.showJobs([]*ohmv1.JobStatus{is})
}
