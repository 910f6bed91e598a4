package main

import (
	"github.com/spf13/cobra"
)

func applyCommand(a *app) *cobra.Command {
	var opts runOptions
	cmd := &cobra.Command{
		Use:   "apply FILE...",
		Short: "Make jobs what their files say",
		Long: `Make the jobs what these files say; - is the standard input. All of them are stored, or none.

A job that is there already with the same content stays as it is, also one that has ended: to run
that again is ohm run. One that was stopped is started. Of a live job other content is a new
version, and what has changed says what becomes of its tasks: ohm plan shows it before.

With --token, of ohm plan, it does what was planned or nothing: it is refused (exit code 5) where the
content of a file or the job that stands is not what it was then.

--wait, --timeout and --request-id are those of ohm run.`,
		Example: `  ohm apply web.yaml --wait --timeout 10m
  ohm apply web.yaml --token $(ohm plan web.yaml -o name)`,
		Args: named("a job file, or - for the standard input", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.apply = true
			return a.submitFiles(cmd, args, opts)
		},
	}
	submitFlags(cmd, &opts)
	cmd.Flags().StringVar(&opts.token, "token", "", "of ohm plan: do what was planned or nothing")
	return cmd
}
