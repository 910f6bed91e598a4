package bench

import "math"

// Report is what was measured. Latencies are in milliseconds; what is counted is counted
// in the measured window; maps of processes are by name.
type Report struct {
	Nodes               int                `json:"nodes"`
	Schedulers          int                `json:"schedulers"`
	TasksPerJob         int                `json:"tasks_per_job"`
	MaxPerNode          int                `json:"max_per_node"`
	Steady              float64            `json:"steady"`
	Live                int                `json:"live,omitempty"` // from the start
	Rate                float64            `json:"rate,omitempty"` // tasks a second that came; absent: as many as were placed
	Seconds             float64            `json:"seconds"`
	PlacementsPerSecond float64            `json:"placements_per_second"`
	ReleasesPerSecond   float64            `json:"releases_per_second"`
	RawPerSecond        float64            `json:"raw_per_second"`
	Ratio               float64            `json:"ratio"`
	PerNodeWrite        float64            `json:"placements_per_node_transaction"`
	Wait                Quantiles          `json:"wait_ms"`            // job stored to placement seen
	Commit              Quantiles          `json:"commit_ms"`          // decided to placement seen
	Conflicts           map[string]float64 `json:"conflict_fraction"`  // claims refused by reason, as the journal has them, ÷ committed
	Used                float64            `json:"used"`               // share of the cell in use at the end
	Busyness            map[string]float64 `json:"busyness"`           // share of the time since its first placement that a scheduler spent deciding
	ColdStart           map[string]float64 `json:"cold_start_seconds"` // from the start of a scheduler's process to its first placement seen
	CPU                 map[string]float64 `json:"cpu_cores"`
	CPUPerPlacement     map[string]float64 `json:"cpu_us_per_placement"`
	MemoryMiB           map[string]float64 `json:"memory_mib"`      // at the end
	MemoryPeakMiB       map[string]float64 `json:"memory_peak_mib"` // since its start
	BytesWritten        Bytes              `json:"bytes_written"`
	StoreMiB            float64            `json:"store_mib"`
	// Writes are the puts and deletes of each kind of record for each placement, as a
	// watcher sees them; fences and lanes, one each for a node's commit and a request, are
	// not among them.
	Writes    map[string]float64 `json:"writes_per_placement"`
	Intervals []Interval         `json:"intervals,omitempty"`

	Life       *Life       `json:"life,omitempty"`
	Trickle    *Trickle    `json:"trickle,omitempty"`
	Submit     *Submit     `json:"submit,omitempty"`
	Sessions   *Sessions   `json:"sessions,omitempty"`
	Heartbeats *Heartbeats `json:"heartbeats,omitempty"`
}

// Quantiles of a latency.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Bytes are what etcd's process wrote to the disk, its log and its database; 0 where the
// process is not the bench's.
type Bytes struct {
	MiB          float64 `json:"etcd_mib"`
	PerPlacement float64 `json:"per_placement"`
}

// Interval is a quarter of the window.
type Interval struct {
	Until               float64   `json:"until_seconds"`
	PlacementsPerSecond float64   `json:"placements_per_second"`
	Commit              Quantiles `json:"commit_ms"`
	StoreMiB            float64   `json:"store_mib"` // at its end
	StoreUsedMiB        float64   `json:"store_used_mib"`
}

// Life is what became of whole lives: placed, started, reported, ended, released.
type Life struct {
	PerSecond float64 `json:"lives_per_second"` // tasks of which the end is stored
	Live      int     `json:"live"`             // placements, at the end
	// Started is from the claim to the start on the node, Reported from the end there to
	// the release seen.
	Started  Quantiles `json:"placed_to_started_ms"`
	Reported Quantiles `json:"ended_to_released_ms"`
	// CPU of each process for a life, in microseconds.
	CPU    map[string]float64 `json:"cpu_us_per_life"`
	Writes map[string]float64 `json:"writes_per_life"`
}

// Trickle is what became of one-task service jobs beside the load.
type Trickle struct {
	PerSecond float64   `json:"jobs_per_second"` // placed
	Durable   Quantiles `json:"submit_to_durable_ms"`
}

// Submit is how jobs came through the API.
type Submit struct {
	Batch     int       `json:"jobs_per_request"`
	PerSecond float64   `json:"jobs_per_second"` // stored
	Request   Quantiles `json:"request_ms"`
}

// Sessions is how assignments reached the agents.
type Sessions struct {
	Sessions  int       `json:"sessions"`
	PerSecond float64   `json:"assignments_per_second"`
	Lag       Quantiles `json:"lag_ms"` // placement durable to the session's message
}

// Heartbeats is what they cost.
type Heartbeats struct {
	PerSecond float64 `json:"heartbeats_per_second"`
	// Microseconds of the server's CPU for one of them, measured before the load.
	CPU float64 `json:"server_cpu_us_per_heartbeat"`
	// Writes of sessions' records; what heartbeats have to do with the store.
	Writes int64 `json:"alive_writes"`
}

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}
