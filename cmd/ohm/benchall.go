package main

import (
	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cmd/ohm/bench"
)

func benchAllCommand(a *app) *cobra.Command {
	conf := bench.Short()
	c := &cobra.Command{
		Use:   "all",
		Short: "Measure every row of the benchmarks shortly",
		Long: `Measure every row of the benchmarks for some seconds, each in a cell of its own, and print
them as one table: what make bench does. The figures of docs/benchmarks.md come from
longer runs of ohm bench commit.`,
		Example: "  ohm bench all\n  ohm bench all --duration 20s -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.ofThisProgram(&conf); err != nil {
				return err
			}
			rows := []bench.Row{}
			if a.output != "json" {
				if err := a.println(bench.TableHead()); err != nil {
					return err
				}
			}
			err := bench.All(cmd.Context(), conf, func(r bench.Row) error {
				rows = append(rows, r)
				if a.output == "json" {
					return nil
				}
				return a.println(r.Line())
			})
			if err != nil {
				return benchFailed(cmd, err)
			}
			if a.output != "json" {
				return nil
			}
			text, err := jsonText(rows)
			if err != nil {
				return err
			}
			return a.showJSON(text)
		},
	}
	f := c.Flags()
	f.IntVar(&conf.Nodes, "nodes", conf.Nodes, "nodes of the cell")
	f.IntVar(&conf.Schedulers, "schedulers", conf.Schedulers, "scheduler processes")
	f.DurationVar(&conf.Duration, "duration", conf.Duration, "of each measured window")
	f.DurationVar(&conf.Warmup, "warmup", conf.Warmup, "before it")
	f.DurationVar(&conf.RawDuration, "raw-duration", conf.RawDuration, "of the raw commits")
	outputFlag(c, "table", "json")
	return asPart(c)
}
