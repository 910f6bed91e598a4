package containerd

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/pkg/cap"

	"github.com/ohmcell/ohm/agent/driver"
)

// usualCaps are what a container has if it asks for nothing: those of Docker and containerd.
func usualCaps() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
		"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
	}
}

// ownCaps are those that this process may give on.
func ownCaps() ([]string, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if hex, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil {
				return nil, err
			}
			known, _ := cap.FromBitmap(bits)
			return known, nil
		}
	}
	return nil, fmt.Errorf("/proc/self/status names no capabilities")
}

// caps are those of a container: the usual ones that the agent has itself, less and more of
// them as it asks. What is asked for and cannot be given is an error.
func caps(b driver.Box, mine []string) ([]string, error) {
	list := slices.DeleteFunc(usualCaps(), func(c string) bool { return !slices.Contains(mine, c) })
	for _, c := range b.DropCaps {
		if c == "ALL" {
			list = nil
		} else if !slices.Contains(cap.Known(), c) {
			return nil, fmt.Errorf("there is no capability %q", c)
		}
		list = slices.DeleteFunc(list, func(has string) bool { return has == c })
	}
	for _, c := range b.AddCaps {
		switch {
		case !slices.Contains(cap.Known(), c):
			return nil, fmt.Errorf("there is no capability %q", c)
		case !slices.Contains(mine, c):
			return nil, fmt.Errorf("this node cannot give the capability %s", c)
		case !slices.Contains(list, c):
			list = append(list, c)
		}
	}
	return list, nil
}
