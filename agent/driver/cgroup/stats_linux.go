package cgroup

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
)

// Stats is what the groups have counted; ok is false if they are not there.
func (g Groups) Stats() (s driver.Stats, ok bool) {
	if top := g.Members(); top == "" || !isDir(top) {
		return s, false
	}
	if g.Memory != "" {
		g.memory(&s)
	}
	switch {
	case g.Account != "" && g.Account != g.Unified:
		s.CPU = time.Duration(number(g.Account, "cpuacct.usage"))
	case g.Unified != "":
		s.CPU = micro(counter(filepath.Join(g.Unified, "cpu.stat"), "usage_usec"))
	}
	if g.CPU != "" {
		stat := filepath.Join(g.CPU, "cpu.stat")
		s.ThrottledPeriods = counter(stat, "nr_throttled")
		if s.Throttled = micro(counter(stat, "throttled_usec")); g.CPU != g.Unified {
			s.Throttled = time.Duration(counter(stat, "throttled_time"))
		}
	}
	if g.Pids != "" {
		s.Processes = number(g.Pids, "pids.current")
	}
	return s, true
}

// memory as the kernel would reckon it when the task is at its limit: what is cached and
// not in use could be dropped.
func (g Groups) memory(s *driver.Stats) {
	used, peak, limit, inactive := "memory.current", "memory.peak", "memory.max", "inactive_file"
	if g.Memory != g.Unified {
		used, peak, limit, inactive = "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"
	}
	s.Memory = max(0, number(g.Memory, used)-counter(filepath.Join(g.Memory, "memory.stat"), inactive))
	s.MemoryPeak = number(g.Memory, peak)
	const none = 1 << 62 // v1 writes the largest number of pages where there is no limit
	if most := number(g.Memory, limit); most < none {
		s.MemoryLimit = most
	}
}

func micro(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// number of a file that holds nothing else; 0 if it does not, as with "max".
func number(dir, file string) int64 {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// OOMs counts the processes that were killed for want of memory, in all groups of the
// task. (v1 counts a victim in its own group only.)
func (g Groups) OOMs() (n int64) {
	switch {
	case g.Memory == "":
	case g.Memory == g.Unified:
		n = counter(filepath.Join(g.Memory, "memory.events"), "oom_kill")
	default:
		for _, dir := range tree(g.Memory) {
			n += counter(filepath.Join(dir, "memory.oom_control"), "oom_kill")
		}
	}
	return n
}

func counter(path, name string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if key, value, _ := strings.Cut(s.Text(), " "); key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}
