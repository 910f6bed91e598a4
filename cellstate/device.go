package cellstate

import (
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// DeviceHealthy is the health in which a device takes new tasks.
const DeviceHealthy = ohmv1.DeviceHealth_DEVICE_HEALTH_HEALTHY

// device is one of the node's GPUs by its id; nil if it has none of that id.
func (n *Node) device(id string) *ohmv1.Device {
	for _, d := range n.Facts.GetGpus() {
		if d.GetId() == id {
			return d
		}
	}
	return nil
}

// HealthName is a device's health as people and JSON see it: "NotReady".
func HealthName(h ohmv1.DeviceHealth) string {
	var name strings.Builder
	for word := range strings.SplitSeq(strings.TrimPrefix(h.String(), "DEVICE_HEALTH_"), "_") {
		name.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return name.String()
}

// HealthText says for people how a device is: "Bad: code 63, a page of its memory was retired".
func HealthText(d *ohmv1.Device) string {
	if d.GetWhy() == "" {
		return HealthName(d.GetHealth())
	}
	return HealthName(d.GetHealth()) + ": " + d.GetWhy()
}
