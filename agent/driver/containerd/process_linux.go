package containerd

import "github.com/ohmcell/ohm/agent/driver/proc"

// isInit says whether the process is pid 1 of a container.
func isInit(pid int) bool {
	p, err := proc.ReadPlace(pid)
	return err == nil && p.Nested && p.Local == 1
}

// findCommand is the child of a container's init with the pid that the container knows it
// by; 0 if it has ended by now.
func findCommand(pids []int, init, local int) int {
	for _, pid := range pids {
		if p, err := proc.ReadPlace(pid); err == nil && p.Parent == init && p.Local == local {
			return pid
		}
	}
	return 0
}

// childOf is the pid by which a container knows a child of its init; 0 if there is none.
func childOf(pids []int, init int) int {
	for _, pid := range pids {
		if p, err := proc.ReadPlace(pid); err == nil && p.Parent == init && p.Nested {
			return p.Local
		}
	}
	return 0
}
