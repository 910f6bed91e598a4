package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cmd/ohm/packing"
)

func benchPackingCommand(a *app) *cobra.Command {
	conf := packing.Config{}
	var plot string
	c := &cobra.Command{
		Use:   "packing",
		Short: "Compare ways to choose nodes on a recorded cell",
		Long: `Fill the cell of the Alibaba GPU cluster trace (openb) in this process, once with Ohm's own
scorer and once with each of the well-known ones, behind the same filters and the same
commit check, and compare how much of the GPUs each of them allocates: in file order,
shuffled and inflated to 130%, on the variants of the list; how few nodes hold 60% of it, of
which 0.2% may wait; what eight schedulers lose whose views are up to 100 decisions old, of one
kind and of three; what is in use while tasks that want 90% of the GPUs come and go, each for as
long as in the record but six hours at most; and how much CPU one decision takes. The trace is read from
--traces or $OHM_TRACES, a folder that holds openb/.`,
		Example: `  ohm bench packing --traces data
  ohm bench packing --traces data --seeds 1 -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if conf.Traces == "" {
				conf.Traces = os.Getenv("OHM_TRACES")
			}
			switch {
			case conf.Traces == "":
				return refuse("give --traces FOLDER, or set OHM_TRACES, to a folder with the trace openb")
			case conf.Seeds < 1 || conf.Seeds > 100:
				return refuse("--seeds %d is not between 1 and 100", conf.Seeds)
			}
			conf.Progress = func(done, all int) {
				if a.terminal {
					fmt.Fprintf(a.stderr, "\r%d of %d trials ", done, all)
				}
			}
			r, err := packing.Run(cmd.Context(), conf)
			if a.terminal {
				fmt.Fprint(a.stderr, "\r\033[K")
			}
			if err != nil {
				return failf(exitFailed, "", "%v", err)
			}
			if plot != "" {
				if err := os.WriteFile(plot, packing.Plot(r), 0o644); err != nil {
					return failf(exitFailed, "", "%v", err)
				}
			}
			return a.showPacking(r)
		},
	}
	f := c.Flags()
	f.StringVar(&conf.Traces, "traces", "", "folder that holds openb/ (default $OHM_TRACES)")
	f.IntVar(&conf.Seeds, "seeds", 5, "orders of the list, where it is shuffled")
	f.StringVar(&plot, "plot", "", "file to write the curves to, as SVG")
	outputFlag(c, "table", "json")
	return asPart(c)
}

// showPacking prints a contender a line, its own columns wide enough to be read.
func (a *app) showPacking(r *packing.Report) error {
	if a.output == "json" {
		text, err := jsonText(r)
		if err != nil {
			return err
		}
		return a.showJSON(text)
	}
	percent := func(value func(packing.Row) float64) func(packing.Row) string {
		return func(row packing.Row) string { return fmt.Sprintf("%.2f", value(row)) }
	}
	p := &printer{app: a}
	p.linef("%d nodes, %d tasks; GPUs in %% of all; %d orders where it is shuffled", r.Nodes, r.Tasks, r.Seeds)
	p.heading("nothing leaves")
	all := []column[packing.Row]{
		{title: "POLICY", cell: func(row packing.Row) string { return row.Policy }},
		{title: "FILE ORDER", cell: percent(func(row packing.Row) float64 { return row.FileOrder })},
		{title: "FIRST REFUSED", cell: func(row packing.Row) string { return fmt.Sprint(row.FirstRefused) }},
		{title: "TO 130%", cell: percent(func(row packing.Row) float64 { return row.Shuffled })},
	}
	for _, name := range slices.Sorted(maps.Keys(r.Rows[0].Variants)) {
		all = append(all, column[packing.Row]{title: strings.ToUpper(name), cell: percent(func(row packing.Row) float64 { return row.Variants[name] })})
	}
	all = append(all, column[packing.Row]{title: "NODES % MEDIAN/P90", cell: func(row packing.Row) string { return fmt.Sprintf("%.1f/%.1f", row.NodesMedian, row.NodesMost) }})
	columns(p, r.Rows, all...)
	p.heading("eight schedulers, views up to 100 decisions old; tasks that want 90%% come and go; one decision")
	columns(p, r.Rows,
		column[packing.Row]{title: "POLICY", cell: func(row packing.Row) string { return row.Policy }},
		column[packing.Row]{title: "EIGHT GPU %", cell: percent(func(row packing.Row) float64 { return row.Eight })},
		column[packing.Row]{title: "CONFLICTS/COMMIT", cell: func(row packing.Row) string { return fmt.Sprintf("%.3f", row.Conflicts) }},
		column[packing.Row]{title: "OF THREE KINDS", cell: func(row packing.Row) string { return fmt.Sprintf("%.2f, %.3f", row.Three, row.ThreeLost) }},
		column[packing.Row]{title: "90% USED/REFUSED", cell: func(row packing.Row) string { return fmt.Sprintf("%.2f/%.2f", row.Steady, row.Gone) }},
		column[packing.Row]{title: "µS", cell: func(row packing.Row) string { return fmt.Sprintf("%.1f", row.Decision) }},
		column[packing.Row]{title: "µS 50,000 NODES", cell: func(row packing.Row) string {
			if row.Decision50k == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f", row.Decision50k)
		}})
	return p.flush()
}
