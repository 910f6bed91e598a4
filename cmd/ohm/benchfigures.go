package main

import (
	"fmt"

	"github.com/ohmcell/ohm/cmd/ohm/bench"
)

// benchFigures are the lines of a report for people.
func benchFigures(r *bench.Report) []figure {
	latency := func(q bench.Quantiles) string { return fmt.Sprintf("%g, %g", q.P50, q.P99) }
	lines := []figure{
		{"placements per second", r.PlacementsPerSecond}, {"raw commits per second", r.RawPerSecond}, {"ratio", r.Ratio},
		{"releases per second", r.ReleasesPerSecond}, {"placements per node txn", r.PerNodeWrite},
		{"wait p50, p99 (ms)", latency(r.Wait)}, {"commit p50, p99 (ms)", latency(r.Commit)},
	}
	if l := r.Life; l != nil {
		lines = append(lines, figure{"lives per second", l.PerSecond}, figure{"live at the end", l.Live},
			figure{"placed to started (ms)", latency(l.Started)}, figure{"ended to released (ms)", latency(l.Reported)},
			figure{"writes per life", l.Writes}, figure{"CPU per life (µs)", l.CPU})
	}
	if t := r.Trickle; t != nil {
		lines = append(lines, figure{"trickle, jobs per second", t.PerSecond}, figure{"to durable p50, p99 (ms)", latency(t.Durable)})
	}
	if s := r.Submit; s != nil {
		lines = append(lines, figure{"submitted per second", s.PerSecond}, figure{"request p50, p99 (ms)", latency(s.Request)})
	}
	if s := r.Sessions; s != nil {
		lines = append(lines, figure{"assignments per second", s.PerSecond}, figure{"lag p50, p99 (ms)", latency(s.Lag)})
	}
	if h := r.Heartbeats; h != nil {
		lines = append(lines, figure{"heartbeats per second", h.PerSecond}, figure{"CPU per heartbeat (µs)", h.CPU}, figure{"writes by sessions", h.Writes})
	}
	for i, name := range []string{"first quarter", "last quarter"} {
		if len(r.Intervals) > 0 {
			q := r.Intervals[i*(len(r.Intervals)-1)]
			lines = append(lines, figure{name, fmt.Sprintf("%g placements/s, commit p99 %g ms, store %g MiB (%g in use)", q.PlacementsPerSecond, q.Commit.P99, q.StoreMiB, q.StoreUsedMiB)})
		}
	}
	return append(lines,
		figure{"conflict fraction", r.Conflicts["all"]}, figure{"in use", r.Used}, figure{"busyness", r.Busyness}, figure{"cold start (s)", r.ColdStart},
		figure{"CPU (cores)", r.CPU}, figure{"CPU per placement (µs)", r.CPUPerPlacement}, figure{"writes per placement", r.Writes},
		figure{"memory (MiB)", r.MemoryMiB}, figure{"memory at its peak", r.MemoryPeakMiB},
		figure{"written by etcd", fmt.Sprintf("%g MiB, %g bytes per placement", r.BytesWritten.MiB, r.BytesWritten.PerPlacement)}, figure{"store (MiB)", r.StoreMiB})
}
