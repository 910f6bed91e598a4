package agent

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// FactsConfig says what of a node's facts is not to be found on the machine.
type FactsConfig struct {
	Name    string           // of the node; empty: the host's name as a DNS label
	DataDir string           // whose disk counts; it must exist
	GPUs    []string         // id=model
	Reserve *ohmv1.Resources // kept back for what is not a task; nil: nothing
	Version string           // of the agent
}

// parseGPUs reads id=model for each device.
func parseGPUs(texts []string) ([]*ohmv1.Device, error) {
	var devices []*ohmv1.Device
	seen := map[string]bool{}
	for _, text := range texts {
		id, model, ok := strings.Cut(text, "=")
		if !ok || id == "" || model == "" {
			return nil, fmt.Errorf("GPU %q is not written as id=model", text)
		}
		if seen[id] {
			return nil, fmt.Errorf("GPU %s is given twice", id)
		}
		seen[id] = true
		devices = append(devices, &ohmv1.Device{Id: id, Model: model})
	}
	return devices, nil
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
