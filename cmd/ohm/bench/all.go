package bench

import (
	"context"
	"fmt"
	"time"
)

// Row is one measurement of several.
type Row struct {
	Name   string  `json:"row"`
	Report *Report `json:"report"`

	config Config
	shows  func(*Report) string // what is the row's own, for people
}

// rows are the questions that docs/benchmarks.md answers, each with its load.
func rows(base Config) []Row {
	with := func(name string, shows func(*Report) string, change func(*Config)) Row {
		c := base
		change(&c)
		return Row{Name: name, config: c, shows: shows}
	}
	nothing := func(*Report) string { return "" }
	return []Row{
		with("jobs of 100, one task a node", nothing, func(*Config) {}),
		with("jobs of 100, up to 4 a node", nothing, func(c *Config) { c.MaxPerNode = 4 }),
		with("one-task jobs through the API", func(r *Report) string {
			return fmt.Sprintf("%d jobs a request, p99 %.0f ms", r.Submit.Batch, r.Submit.Request.P99)
		}, func(c *Config) { c.TasksPerJob, c.Submit, c.RawDuration = 1, mostSubmitted, 0 }),
		with("whole lives", func(r *Report) string {
			return fmt.Sprintf("%.0f lives/s, %.0f µs of CPU each", r.Life.PerSecond, r.Life.CPU["all"])
		}, func(c *Config) { c.Life, c.Steady, c.RawDuration = true, 0.2, 0 }),
		with("service jobs beside the load", func(r *Report) string {
			return fmt.Sprintf("submit to durable p50 %.0f, p99 %.0f ms", r.Trickle.Durable.P50, r.Trickle.Durable.P99)
		}, func(c *Config) { c.Trickle, c.RawDuration = 20, 0 }),
		with("8 schedulers, 90% full", nothing, func(c *Config) { c.Schedulers, c.Steady, c.RawDuration = 8, 0.9, 0 }),
		with("a session a node, heartbeats", func(r *Report) string {
			return fmt.Sprintf("lag p99 %.0f ms, %d writes by %.0f heartbeats/s", r.Sessions.Lag.P99, r.Heartbeats.Writes, r.Heartbeats.PerSecond)
		}, func(c *Config) { c.Sessions, c.Heartbeats, c.RawDuration = c.Nodes, true, 0 }),
		with("ten times the nodes", func(r *Report) string {
			cold := 0.0
			for _, s := range r.ColdStart {
				cold = max(cold, s)
			}
			return fmt.Sprintf("%d live before, first placement after %.1f s", r.Live, cold)
		}, func(c *Config) { c.Nodes, c.Live, c.RawDuration = 10*c.Nodes, 100*c.Nodes, 0 }),
	}
}

// All measures every row for a short time, each in a cell of its own; done is called with
// each one that is.
func All(ctx context.Context, base Config, done func(Row) error) error {
	for _, row := range rows(base) {
		if err := row.config.Check(); err != nil {
			return fmt.Errorf("%s: %w", row.Name, err)
		}
		var err error
		if row.Report, err = Run(ctx, row.config); err != nil {
			return fmt.Errorf("%s: %w", row.Name, err)
		}
		if err := done(row); err != nil {
			return err
		}
	}
	return nil
}

// Short is a run of about a minute.
func Short() Config {
	return Config{
		Nodes: 1000, Schedulers: 3, TasksPerJob: 100, MaxPerNode: 1, Steady: 0.6,
		Warmup: time.Second, Duration: 4 * time.Second, RawDuration: 2 * time.Second,
	}
}

// TableHead names the columns of Line.
func TableHead() string {
	return fmt.Sprintf("%-32s %12s %8s %6s %17s %9s %9s  %s", "row", "placements/s", "raw/s", "ratio", "commit p50/p99 ms", "conflicts", "CPU µs/pl", "")
}

// Line is the row for people.
func (r Row) Line() string {
	raw, ratio := "", ""
	if r.Report.RawPerSecond > 0 {
		raw, ratio = fmt.Sprintf("%.0f", r.Report.RawPerSecond), fmt.Sprintf("%.2f", r.Report.Ratio)
	}
	return fmt.Sprintf("%-32s %12.0f %8s %6s %17s %9.4f %9.0f  %s", r.Name, r.Report.PlacementsPerSecond, raw, ratio,
		fmt.Sprintf("%.0f / %.0f", r.Report.Commit.P50, r.Report.Commit.P99), r.Report.Conflicts["all"], r.Report.CPUPerPlacement["all"], r.shows(r.Report))
}
