package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// Limits of one task; 0: none.
type Limits struct {
	Memory   int64 // bytes
	CPUMilli int64 // a weight, thousandths of a core: under pressure tasks share in proportion to it
	CPUMax   int64 // thousandths of a core that are never exceeded
	Pids     int64 // processes and threads
}

// Create makes a task's cgroups and sets its limits. It may be repeated.
func (g Groups) Create(l Limits) error {
	for tries := 0; ; tries++ {
		err := g.createOnce(l)
		// The folder above may go at any time with the last task that is removed.
		if !errors.Is(err, fs.ErrNotExist) || tries == 10 {
			return err
		}
	}
}

func (g Groups) createOnce(l Limits) error {
	for _, dir := range g.All() {
		if dir == g.Unified {
			if err := g.delegate(); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if g.Memory != "" && l.Memory > 0 {
		// What is over the limit is not to go to swap instead; not every kernel has that file.
		limit, swap, most := "memory.max", "memory.swap.max", int64(0)
		if g.Memory != g.Unified {
			limit, swap, most = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", l.Memory
		}
		if err := set(g.Memory, limit, l.Memory); err != nil {
			return err
		}
		if folder.Exists(filepath.Join(g.Memory, swap)) {
			if err := set(g.Memory, swap, most); err != nil {
				return err
			}
		}
	}
	if g.CPU != "" && l.CPUMilli > 0 {
		// 1024 shares or a weight of 100 are the usual amounts, here for one core.
		file, value := "cpu.weight", min(max(l.CPUMilli/10, 1), 10000)
		if g.CPU != g.Unified {
			file, value = "cpu.shares", min(max(l.CPUMilli*1024/1000, 2), 262144)
		}
		if err := set(g.CPU, file, value); err != nil {
			return err
		}
	}
	if g.CPU != "" && l.CPUMax > 0 {
		if err := g.setCPUMax(l.CPUMax); err != nil {
			return err
		}
	}
	if g.Pids != "" && l.Pids > 0 {
		return set(g.Pids, "pids.max", l.Pids)
	}
	return nil
}

// period, in microseconds, over which CPUMax is reckoned.
const period = 100_000

func (g Groups) setCPUMax(milli int64) error {
	quota := max(milli*period/1000, 1000) // the kernel takes no less
	if g.CPU == g.Unified {
		return Put(g.CPU, "cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	if err := set(g.CPU, "cpu.cfs_period_us", period); err != nil {
		return err
	}
	return set(g.CPU, "cpu.cfs_quota_us", quota)
}

// delegate makes the folder above a task's unified one and hands the controllers that
// tasks need down to it.
func (g Groups) delegate() error {
	parent := filepath.Dir(g.Unified)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	for _, c := range []struct{ name, dir string }{{"memory", g.Memory}, {"cpu", g.CPU}, {"pids", g.Pids}} {
		if c.dir != g.Unified {
			continue
		}
		for _, dir := range []string{filepath.Dir(parent), parent} {
			data, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
			if err != nil {
				return err
			}
			if slices.Contains(strings.Fields(string(data)), c.name) {
				continue
			}
			if err := Put(dir, "cgroup.subtree_control", "+"+c.name); err != nil {
				return err
			}
		}
	}
	return nil
}

func set(dir, file string, value int64) error {
	return Put(dir, file, strconv.FormatInt(value, 10))
}
