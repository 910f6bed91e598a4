package containerd

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// status is what matters of /proc/<pid>/status.
type status struct {
	parent int
	local  int // its pid in its innermost pid namespace
	nested bool
}

func readStatus(pid int) (s status, ok bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return s, false
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		f := strings.Fields(value)
		switch {
		case name == "PPid" && len(f) == 1:
			s.parent, _ = strconv.Atoi(f[0])
		case name == "NSpid" && len(f) > 0:
			s.local, _ = strconv.Atoi(f[len(f)-1])
			s.nested = len(f) > 1
		}
	}
	return s, true
}

// isInit says whether the process is pid 1 of a container.
func isInit(pid int) bool {
	s, ok := readStatus(pid)
	return ok && s.nested && s.local == 1
}

// findCommand is the child of a container's init with the pid that the container knows it
// by, and its start time; 0 if it has ended by now.
func findCommand(pids []int, init, local int) (pid int, start uint64) {
	for _, pid := range pids {
		if s, ok := readStatus(pid); ok && s.parent == init && s.local == local {
			return pid, startTime(pid)
		}
	}
	return 0, 0
}

// childOf is the pid by which a container knows a child of its init; 0 if there is none.
func childOf(pids []int, init int) int {
	for _, pid := range pids {
		if s, ok := readStatus(pid); ok && s.parent == init && s.nested {
			return s.local
		}
	}
	return 0
}

// startTime is field 22 of /proc/<pid>/stat, in clock ticks after boot; 0 if it is gone.
func startTime(pid int) uint64 {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold anything: fields are counted after the last bracket.
	f := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(f) < 20 {
		return 0
	}
	start, _ := strconv.ParseUint(f[19], 10, 64)
	return start
}
