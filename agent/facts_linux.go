package agent

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Facts are those of this machine: all that it has, whoever uses it now, less the
// reserve. They stay the same from one start of the agent to the next.
func Facts(c FactsConfig) (*ohmv1.Node, error) {
	ports, reserved, err := parsePorts(c.Ports, c.ReservedPorts)
	if err != nil {
		return nil, err
	}
	if ports == nil {
		ports = usualPorts(localPorts())
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	name := c.Name
	if name == "" {
		name = label(host)
	}
	if err := names.Check("node name", name); err != nil {
		return nil, fmt.Errorf("%w; did you mean %s?", err, label(name))
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("boot id: %w", err)
	}
	var mem unix.Sysinfo_t
	if err := unix.Sysinfo(&mem); err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(c.DataDir, &disk); err != nil {
		return nil, fmt.Errorf("disk of %s: %w", c.DataDir, err)
	}
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	return &ohmv1.Node{
		Name:   name,
		BootId: strings.TrimSpace(string(boot)),
		Capacity: less(&ohmv1.Resources{
			CpuMilli:    int64(runtime.NumCPU()) * 1000,
			MemoryBytes: int64(uint64(mem.Totalram) * uint64(mem.Unit)),
			DiskBytes:   int64(disk.Blocks) * int64(disk.Bsize),
		}, c.Reserve),
		Attributes: map[string]string{
			"os": runtime.GOOS, "arch": runtime.GOARCH, "hostname": host,
			"kernel": unix.ByteSliceToString(uname.Release[:]),
		},
		AgentVersion: c.Version, DynamicPorts: ports, ReservedPorts: reserved,
	}, nil
}
