package process

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// How much garbage a process of a cell lets come together, in percent of what it holds.
// etcd, mirrors and schedulers turn over far more than they keep: at Go's own 100 a tenth of
// the placements a second is lost to collections. A scheduler holds the whole cell and little
// else, and there are several.
const (
	gcPercent          = 400
	schedulerGCPercent = 250
)

// RelaxCollector sets how this process collects its garbage: rarely, until it holds three
// quarters of the machine's memory. What the environment says (GOGC, GOMEMLIMIT) wins. Every
// process of a cell but a scheduler and the agent of a machine calls it, the benchmark's own
// included, so that what is measured is what runs.
func RelaxCollector() { relax(gcPercent) }

// ShareMachine is the same for a scheduler, which is one of several beside a store: it
// lets less garbage come together, and keeps to half of the machine's cores (unless
// GOMAXPROCS says otherwise), for it has little to do at once, and what the runtime does
// with idle cores is taken from the others.
func ShareMachine() {
	relax(schedulerGCPercent)
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	}
}

func relax(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		if most := memory(os.ReadFile); most < math.MaxInt64 {
			debug.SetMemoryLimit(most / 4 * 3)
		}
	}
}

// memory is what this process may have at most, in bytes: the machine's, or less where a
// control group says so; where neither is known it is without end.
func memory(read func(file string) ([]byte, error)) int64 {
	most := int64(math.MaxInt64)
	if info, err := read("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
				if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
					most = n << 10
				}
			}
		}
	}
	if limit, err := read("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil && n > 0 {
			most = min(most, n)
		}
	}
	return most
}
