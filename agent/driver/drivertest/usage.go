package drivertest

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// stats of a running task.
func (b *bench) stats(id string) driver.Stats {
	b.Helper()
	s, ok, err := b.driver.Stats(b.Context(), id)
	if err != nil || !ok {
		b.Fatalf("stats of %s: running %v, %v", id, ok, err)
	}
	return s
}

// ticks are hundredths of a second of CPU that a process has used, as the kernel counts them.
func (b *bench) ticks(pid int) time.Duration {
	b.Helper()
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	b.must(err)
	f := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, err := strconv.Atoi(f[11])
	b.must(err)
	system, err := strconv.Atoi(f[12])
	b.must(err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

func cpuMax(t *testing.T, b *bench) {
	spin := in(driver.Box{}, "while :; do :; done")
	spin.CPUMax = 200
	id := b.start(spin)
	pid := b.observe(id).Pid
	begin, before := time.Now(), b.ticks(pid)
	Eventually(t, "it was held back in ten periods", func() bool { return b.stats(id).ThrottledPeriods >= 10 })
	wall := time.Since(begin)
	if used := b.ticks(pid) - before; used > wall*3/10+50*time.Millisecond {
		t.Errorf("with a fifth of a core it used %v of %v", used, wall)
	}
	if s := b.stats(id); s.Throttled <= 0 || s.CPU <= 0 {
		t.Errorf("stats are %+v", s)
	}
}

func stats(t *testing.T, b *bench) {
	if _, ok, err := b.driver.Stats(b.Context(), "never-started"); ok || err != nil {
		t.Errorf("of an unknown task: %v, %v", ok, err)
	}
	id := b.start(driver.Task{
		Command:   []string{"sh", "-c", "dd if=/dev/zero of=/dev/null bs=24M count=4 2>/dev/null; echo done; sleep 1000 & wait"},
		Resources: &ohmv1.Resources{MemoryBytes: 64 << 20},
	})
	b.says(id, "done")
	Eventually(t, "the shell waits for its child, and the memory is given back", func() bool {
		s := b.stats(id)
		return s.Processes >= 2 && s.Memory > 0 && s.Memory < 24<<20
	})
	for range 2 {
		s := b.stats(id)
		if s.MemoryPeak < 24<<20 || s.MemoryPeak > 64<<20 || s.MemoryLimit != 64<<20 {
			t.Errorf("memory is told as %+v", s)
		}
		if s.CPU <= 0 || s.CPU > time.Minute || s.ThrottledPeriods != 0 {
			t.Errorf("usage is told as %+v", s)
		}
		b.restart()
	}
	b.must(b.driver.Kill(b.Context(), id))
	if o := b.ended(id); o.MemoryPeak < 24<<20 || o.MemoryPeak > 64<<20 || o.MemoryLimit != 64<<20 {
		t.Errorf("of its end is told %+v", o)
	}
	if s, ok, err := b.driver.Stats(b.Context(), id); ok || err != nil {
		t.Errorf("of an ended task: %+v, %v", s, err)
	}
}

// What a task writes to its scratch folder and over its image is measured, also by another
// driver, as what it takes of the disk: files of several names once, holes not at all.
func diskBytes(t *testing.T, b *bench) {
	bytes := func(id string) int64 {
		t.Helper()
		n, err := b.driver.DiskBytes(b.Context(), id)
		b.must(err)
		return n
	}
	if n := bytes("never-started"); n != 0 {
		t.Errorf("an unknown task takes %d bytes", n)
	}
	script := `dd if=/dev/zero of=$HOME/a bs=1M count=3 2>/dev/null; ln $HOME/a $HOME/b; dd if=/dev/zero of=$HOME/hole bs=1M seek=500 count=0 2>/dev/null; `
	most := int64(4 << 20)
	if b.Image != "" {
		script += `dd if=/dev/zero of=/over bs=1M count=3 2>/dev/null; `
		most += 3 << 20
	}
	id := b.start(in(driver.Box{}, script+"echo done; sleep 1000"))
	b.says(id, "done")
	for range 2 {
		if n := bytes(id); n < most-1<<20 || n > most {
			t.Errorf("it takes %d bytes; want %d to %d", n, most-1<<20, most)
		}
		b.restart()
	}
	b.must(b.driver.Kill(b.Context(), id))
	b.ended(id)
	b.must(b.driver.Remove(b.Context(), id))
	if n := bytes(id); n != 0 {
		t.Errorf("what is left of it takes %d bytes", n)
	}
}
