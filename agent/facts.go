package agent

import (
	"cmp"

	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// FactsConfig says what of a node's facts is not to be found on the machine.
type FactsConfig struct {
	Name          string           // of the node; empty: the host's name as a DNS label
	DataDir       string           // whose disk counts; it must exist
	Reserve       *ohmv1.Resources // kept back for what is not a task; nil: nothing
	Ports         string           // of which tasks get dynamic ones, first-last; empty: see usualPorts
	ReservedPorts []string         // that no task may own
	Version       string           // of the agent
}

// label makes a node's name of a host's.
func label(host string) string {
	return cmp.Or(names.Label(host), "node")
}

// less is what is left of all after the reserve, at least nothing.
func less(all, reserve *ohmv1.Resources) *ohmv1.Resources {
	return &ohmv1.Resources{
		CpuMilli:    max(0, all.GetCpuMilli()-reserve.GetCpuMilli()),
		MemoryBytes: max(0, all.GetMemoryBytes()-reserve.GetMemoryBytes()),
		DiskBytes:   max(0, all.GetDiskBytes()-reserve.GetDiskBytes()),
	}
}
