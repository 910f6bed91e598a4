package cgroup

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Doomed says whether a process has ended, or has been killed and only has to end, which on a
// busy machine can take seconds. Whoever sees its group's kills for memory go up, and the
// process not doomed, knows that it was another one that was killed.
func Doomed(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	const kill = 1 << (syscall.SIGKILL - 1)
	memory := false // given back early in its end
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "VmSize":
			memory = true
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return true
			}
		case "SigPnd", "ShdPnd": // of its first thread, and of all
			if set, err := strconv.ParseUint(value, 16, 64); err == nil && set&kill != 0 {
				return true
			}
		}
	}
	return !memory
}

// probePrefix begins the names of groups that are made to find out what works.
const probePrefix = "probe-"

// IsProbe says of a group's name that somebody is finding out by it what works.
func IsProbe(name string) bool { return strings.HasPrefix(name, probePrefix) }

// sweepProbes gives back what processes that were killed have left of their probes.
func (g Groups) sweepProbes() {
	for _, name := range g.Names() {
		of, isProbe := strings.CutPrefix(name, probePrefix)
		of, _, _ = strings.Cut(of, "-")
		if pid, err := strconv.Atoi(of); isProbe && err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = g.Child(name).Remove() // the next one tries again
		}
	}
}
