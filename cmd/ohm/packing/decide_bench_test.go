package packing

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/ohmcell/ohm/cmd/ohm/openb"
)

// BenchmarkDecide fills cells with Ohm's own choice: the recorded one, and one of 50,000 nodes
// with the recorded tasks, or with as many times more. cpu-µs/decision is of the policy alone,
// the garbage that it makes included.
func BenchmarkDecide(b *testing.B) {
	folder := os.Getenv("OHM_TRACES")
	if folder == "" {
		b.Skip("BenchmarkDecide needs real traces: set OHM_TRACES")
	}
	r, err := read(folder)
	if err != nil {
		b.Fatal(err)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the processes of a cell have it
	all := contenders()
	own := all[len(all)-1]
	for _, cell := range []struct {
		name string
		fill func() (filled, error)
	}{
		{"1523", func() (filled, error) { return fill(r.nodes, r.list, own, alone, together) }},
		{"50000/begin", func() (filled, error) { return fill(r.many(), r.list, own, alone, together) }},
		{"50000/full", func() (filled, error) { return fill(r.many(), openb.Shuffle(r.list, 1, times), own, alone, together) }},
	} {
		b.Run(cell.name, func(b *testing.B) {
			var out filled
			for b.Loop() {
				if out, err = cell.fill(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(microseconds(out.decision), "cpu-µs/decision")
			b.ReportMetric(out.gpus, "%GPUs")
			b.ReportMetric(float64(out.first), "first-refused")
		})
	}
}
