package device

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// How a device may be.
const (
	Healthy  = ohmv1.DeviceHealth_DEVICE_HEALTH_HEALTHY
	NotReady = ohmv1.DeviceHealth_DEVICE_HEALTH_NOT_READY
	Bad      = ohmv1.DeviceHealth_DEVICE_HEALTH_BAD
	Lost     = ohmv1.DeviceHealth_DEVICE_HEALTH_LOST
)

// Policy says what a fault's code means for the device that has it: Healthy, the fault is a
// program's own; Bad, it takes no new tasks; Lost, and those that have it are ended with
// cause DeviceLost. A code that is not named is Bad.
type Policy map[int]ohmv1.DeviceHealth

// words of a policy as people write it.
var words = map[string]ohmv1.DeviceHealth{"ignore": Healthy, "bad": Bad, "lost": Lost}

// ParsePolicy reads code=ignore, code=bad and code=lost, on top of a preset.
func ParsePolicy(preset Policy, texts []string) (Policy, error) {
	p := Policy{}
	for code, health := range preset {
		p[code] = health
	}
	for _, text := range texts {
		number, word, _ := strings.Cut(text, "=")
		code, err := strconv.Atoi(number)
		health, known := words[word]
		if err != nil || code < 0 || !known {
			return nil, fmt.Errorf("GPU code %q is not written as code=ignore, code=bad or code=lost", text)
		}
		p[code] = health
	}
	return p, nil
}

// judge is what the node says of a device: the worst that any of its faults means.
func (p Policy) judge(d Device) *ohmv1.Device {
	says := &ohmv1.Device{Id: d.ID, Model: d.Model, MemoryBytes: d.Memory}
	var why []string
	for _, f := range slices.SortedFunc(slices.Values(d.Faults), func(a, b Fault) int { return a.Code - b.Code }) {
		health, named := p[f.Code]
		if !named {
			health = Bad
		}
		if health == Healthy {
			continue
		}
		says.Health = max(says.Health, health)
		why = append(why, strings.TrimRight(fmt.Sprintf("code %d: %s", f.Code, f.What), ": "))
	}
	says.Why = strings.Join(why, "; ")
	return says
}
