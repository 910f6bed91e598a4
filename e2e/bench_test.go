package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// measured is what a benchmark prints, by the documented names.
type measured map[string]any

// at is the number under a path of names; -1: there is none.
func (m measured) at(path string) float64 {
	var here any = map[string]any(m)
	for name := range strings.SplitSeq(path, "/") {
		inner, ok := here.(map[string]any)
		if !ok {
			return -1
		}
		here = inner[name]
	}
	n, ok := here.(float64)
	if !ok {
		return -1
	}
	return n
}

func benchmark(t *testing.T, flags ...string) measured {
	t.Helper()
	args := append([]string{"bench", "commit", "--nodes", "40", "--schedulers", "2", "--tasks-per-job", "10", "--steady", "0.3",
		"--duration", "600ms", "--warmup", "200ms", "--raw-duration", "0", "-o", "json"}, flags...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "ohm"), args...)
	cmd.Env = environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench %v: %v\n%s", flags, err, stderr.Bytes())
	}
	got := measured{}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return got
}

// TestBench: each row is measured, and prints what is documented of it.
func TestBench(t *testing.T) {
	common := []string{"placements_per_second", "placements_per_node_transaction", "wait_ms/p50", "wait_ms/p99", "commit_ms/p50", "commit_ms/p99",
		"busyness/scheduler 0", "cpu_us_per_placement/scheduler 1", "memory_mib/bench", "memory_peak_mib/scheduler 0",
		"cold_start_seconds/scheduler 1", "writes_per_placement/placement puts"}
	own := []string{"bytes_written/per_placement", "cpu_us_per_placement/etcd", "store_mib"}
	for name, row := range map[string]struct {
		flags, above []string // fields that are above 0
		zero         []string // fields that are 0
	}{
		"steady":      {[]string{"--raw-duration", "300ms"}, []string{"raw_per_second", "ratio", "releases_per_second"}, nil},
		"fill":        {[]string{"--fill", "--nodes", "2000"}, nil, []string{"releases_per_second"}},
		"lives":       {[]string{"--life", "--warmup", "1s"}, []string{"life/lives_per_second", "life/writes_per_life/ended puts", "life/cpu_us_per_life/hollow nodes", "life/placed_to_started_ms/p50", "life/ended_to_released_ms/p99"}, nil},
		"trickle":     {[]string{"--trickle", "50", "--compact-every", "200ms"}, []string{"trickle/jobs_per_second", "trickle/submit_to_durable_ms/p99"}, nil},
		"submit":      {[]string{"--tasks-per-job", "1", "--submit", "20"}, []string{"submit/jobs_per_request", "submit/jobs_per_second", "submit/request_ms/p99", "cpu_cores/server"}, nil},
		"sessions":    {[]string{"--sessions", "40", "--heartbeats"}, []string{"sessions/assignments_per_second", "sessions/lag_ms/p99", "heartbeats/heartbeats_per_second"}, []string{"heartbeats/alive_writes"}},
		"live before": {[]string{"--live", "1000"}, []string{"live", "releases_per_second"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := benchmark(t, row.flags...)
			for _, field := range append(append(row.above, common...), own...) {
				// In so short a run a scheduler may have used less CPU than the system counts (10 ms).
				if got.at(field) <= 0 && !strings.Contains(field, "scheduler ") || got.at(field) < 0 {
					t.Errorf("%s is %v", field, got.at(field))
				}
			}
			for _, field := range append(row.zero, "conflict_fraction/all") {
				if n := got.at(field); n < 0 || n > 0.2 { // a fraction of conflicts may be there
					t.Errorf("%s is %v", field, n)
				}
			}
			if all, ok := got["intervals"].([]any); !ok || len(all) != 4 {
				t.Errorf("intervals are %v", got["intervals"])
			}
		})
	}
}

// TestBenchForeignEtcd measures on an etcd with its own limits, and leaves nothing there.
func TestBenchForeignEtcd(t *testing.T) {
	dir, address := shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), address)
	got := benchmark(t, "--etcd", address, "--raw-duration", "300ms")
	if got.at("placements_per_second") <= 0 || got.at("ratio") <= 0 || got.at("bytes_written/per_placement") != 0 {
		t.Errorf("measured %v", got)
	}
	if keys := keysOf(t, address); keys != 0 {
		t.Errorf("%d keys are left", keys)
	}
}

// keysOf is how many keys an etcd holds.
func keysOf(t *testing.T, address string) int64 {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	all, err := client.Get(t.Context(), "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return all.Count
}
