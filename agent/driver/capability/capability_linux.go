// Package capability says which Linux capabilities a task's program has: a driver's usual
// ones, less and more of them as the task asks, and never more than the agent can give.
package capability

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/ability"
)

// Names are all capabilities, each at the place of its number.
func Names() []string { return ability.LinuxCapabilities() }

// Usual are what a container has if it asks for nothing: those of Docker and containerd.
func Usual() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
		"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
	}
}

// Own are those that this process can give on: its bounding set.
func Own() ([]string, error) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if hex, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			var own []string
			for i, name := range Names() {
				if bits&(1<<i) != 0 {
					own = append(own, name)
				}
			}
			return own, err
		}
	}
	return nil, fmt.Errorf("/proc/self/status names no capabilities")
}

// Of a box are the usual ones that are the agent's own, without those that it drops, and
// with those that it adds. What it names and nobody knows, or the agent has not, is an error.
func Of(b driver.Box, usual, own []string) ([]string, error) {
	known := Names()
	list := slices.DeleteFunc(slices.Clone(usual), func(c string) bool { return !slices.Contains(own, c) })
	for _, c := range b.DropCaps {
		if c == "ALL" {
			list = nil
		} else if !slices.Contains(known, c) {
			return nil, fmt.Errorf("there is no capability %q", c)
		}
		list = slices.DeleteFunc(list, func(has string) bool { return has == c })
	}
	for _, c := range b.AddCaps {
		switch {
		case !slices.Contains(known, c):
			return nil, fmt.Errorf("there is no capability %q", c)
		case !slices.Contains(own, c):
			return nil, fmt.Errorf("this node cannot give the capability %s", c)
		case !slices.Contains(list, c):
			list = append(list, c)
		}
	}
	return list, nil
}
