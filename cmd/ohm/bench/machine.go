package bench

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
)

// used is a process of which the use of the machine is measured.
type used struct {
	name string
	pid  int // 0: this one
}

// usage is what a process has used since its start.
type usage struct {
	cpu       float64 // seconds
	rss, peak float64 // bytes
	written   float64 // bytes, to the disk
}

// ticks of a second in /proc/<pid>/stat, on every Linux that Go runs on.
const ticks = 100

// usageOf reads what a process has used; where there is no /proc it is nothing.
func usageOf(p used) usage {
	name := "self"
	if p.pid > 0 {
		name = strconv.Itoa(p.pid)
	}
	read := func(file string) string {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%s/%s", name, file)) // empty without /proc
		return string(text)
	}
	return parseUsage(read("stat"), read("status"), read("io"), os.Getpagesize())
}

func parseUsage(stat, status, io string, page int) (u usage) {
	number := func(s string) float64 { n, _ := strconv.ParseFloat(s, 64); return n }
	if f := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]); len(f) >= 22 { // a name may hold anything
		u.cpu, u.rss = (number(f[11])+number(f[12]))/ticks, number(f[21])*float64(page)
	}
	u.peak = number(field(status, "VmHWM:")) * 1024
	u.written = number(field(io, "write_bytes:"))
	return u
}

// field is the word after a name at the beginning of a line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[1]
		}
	}
	return ""
}

func usages(processes []used) (all []usage) {
	for _, p := range processes {
		all = append(all, usageOf(p))
	}
	return all
}

// Profile writes a CPU profile of this process to a file until the returned function is
// called; with no file it does nothing.
func Profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}
