// Package bench measures the road of a placement: raw nested commits of etcd, and, in
// the same run on the same machine with the same client and records, the whole road from
// jobs in the store to placements that are durable and seen by a server's mirror.
package bench

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	"github.com/ohmcell/ohm/cmd/ohm/child"
)

// Config of a run.
type Config struct {
	Nodes       int
	Schedulers  int     // processes
	TasksPerJob int     //
	MaxPerNode  int     // tasks of one job on one node
	Steady      float64 // share of the cell that is kept in use; 0: only fill
	Warmup      time.Duration
	Duration    time.Duration
	RawDuration time.Duration
	Profiles    string // folder for CPU profiles of the processes; empty: none
	Program     string // the ohm binary
	Log         io.Writer
}

// cpuPerNode is how many tasks of one core a node holds.
const cpuPerNode = 64

// Report is what was measured. Latencies are in milliseconds.
type Report struct {
	Nodes               int                `json:"nodes"`
	Schedulers          int                `json:"schedulers"`
	TasksPerJob         int                `json:"tasks_per_job"`
	MaxPerNode          int                `json:"max_per_node"`
	Steady              float64            `json:"steady"`
	Seconds             float64            `json:"seconds"`
	PlacementsPerSecond float64            `json:"placements_per_second"`
	ReleasesPerSecond   float64            `json:"releases_per_second"`
	RawPerSecond        float64            `json:"raw_per_second"`
	Ratio               float64            `json:"ratio"`
	PerNodeWrite        float64            `json:"placements_per_node_transaction"`
	Wait                Quantiles          `json:"wait_ms"`   // job stored to placement seen
	Commit              Quantiles          `json:"commit_ms"` // decided to placement seen
	Conflicts           map[string]float64 `json:"conflict_fraction"`
	Used                float64            `json:"used"` // share of the cell in use at the end
	Busyness            map[string]float64 `json:"busyness"`
	CPU                 map[string]float64 `json:"cpu_cores"`
	MemoryMiB           map[string]float64 `json:"memory_mib"`
	StoreMiB            float64            `json:"store_mib"`
}

// Quantiles of a latency.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Run measures raw etcd first and then the whole road, each on an etcd process of its
// own.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &Report{Nodes: c.Nodes, Schedulers: c.Schedulers, TasksPerJob: c.TasksPerJob, MaxPerNode: c.MaxPerNode, Steady: c.Steady}
	err := c.withEtcd(ctx, func(_ *child.Set, _ *child.Process, endpoint string) (err error) {
		r.RawPerSecond, err = c.raw(ctx, endpoint)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("raw commits: %w", err)
	}
	err = c.withEtcd(ctx, func(s *child.Set, etcd *child.Process, endpoint string) error {
		return c.road(ctx, s, etcd, endpoint, r)
	})
	if err != nil {
		return nil, fmt.Errorf("whole road: %w", err)
	}
	r.Ratio = round(r.PlacementsPerSecond/r.RawPerSecond, 3)
	return r, nil
}

// withEtcd runs f with a fresh etcd in a process of its own.
func (c Config) withEtcd(ctx context.Context, f func(s *child.Set, etcd *child.Process, endpoint string) error) error {
	dir, err := os.MkdirTemp("", "ohm-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &child.Set{Program: c.Program, Log: c.Log}
	defer s.End()
	etcd, err := s.Start("etcd", "bench", "etcd", "--data-dir", dir, "--cpu-profile", c.profile("etcd"))
	if err != nil {
		return err
	}
	endpoint, err := etcd.Word("etcd")
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f(s, etcd, endpoint)
}

// profile is the file for a process's CPU profile.
func (c Config) profile(name string) string {
	if c.Profiles == "" {
		return ""
	}
	return filepath.Join(c.Profiles, name+".pprof")
}

// Etcd runs an etcd alone and says where, until ctx ends.
func Etcd(ctx context.Context, dir string, out io.Writer) error {
	server, err := embedded.Start(ctx, dir, zap.NewNop())
	if err != nil {
		return err
	}
	defer server.Close()
	fmt.Fprintf(out, "etcd %s\n", server.Endpoint())
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.Err():
		return err
	}
}

func openStore(ctx context.Context, endpoint, sender string) (*etcdstore.Store, error) {
	return etcdstore.Open(ctx, etcdstore.Config{
		Endpoints: []string{endpoint}, Sender: sender,
		MaxTxnOps: embedded.MaxTxnOps, MaxRequestBytes: embedded.MaxRequestBytes,
	})
}

func quantiles(ms []float64) Quantiles {
	if len(ms) == 0 {
		return Quantiles{}
	}
	slices.Sort(ms)
	at := func(q float64) float64 { return round(ms[min(len(ms)-1, int(q*float64(len(ms))))], 1) }
	return Quantiles{at(0.50), at(0.99)}
}

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}
