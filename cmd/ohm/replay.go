package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cmd/ohm/replay"
)

func replayCommand(a *app) *cobra.Command {
	var conf replay.Config
	var format string
	c := &cobra.Command{
		Use:   "replay",
		Short: "Replay a recorded workload through a whole cell",
		Long: `Start a cell of its own with simulated nodes as in a machine list and a number of
scheduler processes, submit the tasks of a record in file order, a job each, and count
from the store what came of it: how much was placed, how full the cell is, how often
schedulers were in each other's way, and whether a promise was broken (then it exits
with 1). Nothing of it stays.

The format openb is that of the Alibaba GPU cluster trace: CSV files with the columns
sn, cpu_milli, memory_mib, gpu, model for nodes and name, cpu_milli, memory_mib, num_gpu,
gpu_milli and, where they are known, gpu_spec and qos for tasks.`,
		Example: `  ohm replay --format openb --nodes nodes.csv --tasks tasks.csv --schedulers 3
  ohm replay --format openb --nodes nodes.csv --tasks tasks.csv --shuffle 1 --inflate 1.3 -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case format != "openb":
				return refuse("--format %q is not known; there is openb", format)
			case conf.Nodes == "" || conf.Tasks == "":
				return refuse("give both --nodes FILE and --tasks FILE")
			case conf.Inflate <= 0 || conf.Inflate > 100:
				return refuse("--inflate %v is not above 0 and at most 100", conf.Inflate)
			case conf.Schedulers < 1 || conf.Schedulers > 64:
				return refuse("--schedulers %d is not between 1 and 64", conf.Schedulers)
			}
			var err error
			if conf.Program, err = os.Executable(); err != nil {
				return err
			}
			conf.Log = a.stderr
			conf.Notice = func(s string) { fmt.Fprintf(a.stderr, "notice: %s\n", s) }
			if a.terminal {
				conf.Progress = func(done, all int) { fmt.Fprintf(a.stderr, "\r%d of %d tasks ", done, all) }
			}
			r, err := replay.Run(cmd.Context(), conf)
			if a.terminal {
				fmt.Fprint(a.stderr, "\r\033[K")
			}
			if err != nil {
				if cmd.Context().Err() != nil {
					return err
				}
				return refuse("%v", err)
			}
			if err := a.showReport(r); err != nil {
				return err
			}
			if n := r.Violations + r.ModelViolations; n > 0 {
				return failf(exitFailed, "", "%s of the cell's promises", plural(n, "violation"))
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&format, "format", "openb", "of the files")
	f.StringVar(&conf.Nodes, "nodes", "", "file with the machines")
	f.StringVar(&conf.Tasks, "tasks", "", "file with the tasks, in order of arrival")
	f.Uint64Var(&conf.Shuffle, "shuffle", 0, "seed of another order of the tasks; 0: file order")
	f.Float64Var(&conf.Inflate, "inflate", 1, "how many times all tasks: 1.3 is all and three tenths once more")
	f.IntVar(&conf.Schedulers, "schedulers", 3, "scheduler processes; process i runs policy i mod 3 of service, batch, ml")
	outputFlag(c, "table", "json")
	return asPart(c)
}

func (a *app) showReport(r *replay.Report) error {
	return a.showFigures(r, []figure{
		{"nodes", r.Nodes}, {"submitted", r.Submitted}, {"placed", r.Placed}, {"refused", r.Refused}, {"first refused", r.FirstRefused},
		{"GPUs allocated", fmt.Sprintf("%.2f%%", r.GPUAllocatedPercent)}, {"CPU allocated", fmt.Sprintf("%.2f%%", r.CPUAllocatedPercent)},
		{"conflicts", r.Conflicts.Total}, {"conflicts per commit", r.ConflictsPerCommit},
		{"placements per second", r.PlacementsPerSecond}, {"seconds", r.Seconds}, {"schedulers", r.Schedulers},
		{"violations", r.Violations}, {"model violations", r.ModelViolations},
	})
}

// figure is one line of what was measured.
type figure struct {
	name  string
	value any
}

// showFigures prints a report as JSON or as lines.
func (a *app) showFigures(report any, lines []figure) error {
	if a.output == "json" {
		text, err := jsonText(report)
		if err != nil {
			return err
		}
		return a.showJSON(text)
	}
	for _, line := range lines {
		if err := a.println(fmt.Sprintf("%-24s %v", line.name, line.value)); err != nil {
			return err
		}
	}
	return nil
}
