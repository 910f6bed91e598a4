package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cmd/ohm/check"
)

func schedulerCheckCommand(a *app) *cobra.Command {
	var kinds []string
	patience := 30 * time.Second
	var rules strings.Builder
	for _, r := range check.Rules() {
		fmt.Fprintf(&rules, "  %-12s %s\n", r.Name, r.Owes)
	}
	cmd := &cobra.Command{
		Use:   "check SCHEDULER",
		Short: "Try out whether a running scheduler does what it owes",
		Long: `Try out a scheduler that runs in the cell, anybody's, in whatever language it is written: bring
three simulated nodes, submit jobs for them that name the scheduler, and look at what
the cell has stored of it. Nothing but the API is used. The rules:

` + rules.String() + `
The jobs are in a namespace of their own, check-SCHEDULER, and are stopped at the end; the
nodes stay in the list, lost, and are the same the next time. Do this in a cell for tests:
schedulers that do not know of simulated nodes may place other jobs there. A policy in Go
is checked without a cell, and more closely, by schedtest.Conformance.`,
		Example: `  ohm scheduler check first-fit
  ohm scheduler check mine --kind batch --kind ml -o json`,
		Args: named("the name of a scheduler", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, kind := range kinds {
				if !slices.Contains(check.Kinds(), kind) {
					return refuse("there is no kind %q of jobs; there are %s", kind, strings.Join(check.Kinds(), ", "))
				}
			}
			if patience <= 0 {
				return refuse("--patience is more than 0")
			}
			conn, err := a.connect()
			if err != nil {
				return err
			}
			defer conn.Close()
			results, err := check.Run(cmd.Context(), check.Config{Scheduler: args[0], Kinds: kinds, Patience: patience, Conn: conn, Log: zap.NewNop()})
			if err != nil {
				return err
			}
			if err := a.show(view{
				json:  func() ([]byte, error) { return jsonText(results) },
				table: func(p *printer) { checkTable(p, results) },
			}); err != nil {
				return err
			}
			broken := 0
			for _, r := range results {
				if !r.Kept {
					broken++
				}
			}
			if broken > 0 {
				return failf(exitFailed, "", "scheduler %s does not keep %d of %d rules", args[0], broken, len(results))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&kinds, "kind", nil, "a kind of jobs that the scheduler is for; if not given, all: "+strings.Join(check.Kinds(), ", "))
	f.DurationVar(&patience, "patience", patience, "how long to wait for each thing that is to happen")
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func checkTable(p *printer, results []check.Result) {
	type row = check.Result
	columns(p, results,
		column[row]{title: "RULE", cell: func(r row) string { return r.Rule }},
		column[row]{title: "KIND", cell: func(r row) string { return r.Kind }},
		column[row]{title: "KEPT", cell: func(r row) string {
			if r.Kept {
				return "yes"
			}
			return "NO"
		}},
		column[row]{title: "TOOK", cell: func(r row) string { return fmt.Sprintf("%.2fs", r.Seconds) }},
		column[row]{title: "PROBLEM", cell: func(r row) string { return r.Problem }, skip: !slices.ContainsFunc(results, func(r row) bool { return !r.Kept })},
	)
}
