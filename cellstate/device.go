package cellstate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// DeviceHealthy is the health in which a device takes new tasks.
const DeviceHealthy = ohmv1.DeviceHealth_DEVICE_HEALTH_HEALTHY

// When tasks without devices may go to nodes that have some: where no other node will do,
// which is the preset, or at any time.
const (
	DeviceNodesLast = "last"
	DeviceNodesAny  = "any"
)

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

// wholeDevice is a device in thousandths.
const wholeDevice = 1000

// ShareOn is what a request asks of one device, in thousandths. Where the device will never
// do, why says that for people, in few words.
func ShareOn(d *ohmv1.Device, q *ohmv1.GPURequest) (milli int32, why string) {
	switch {
	case len(q.GetModels()) > 0 && !slices.Contains(q.GetModels(), d.GetModel()):
		return 0, "of another model"
	case d.GetMemoryBytes() < q.GetMemoryBytes():
		return 0, "with " + memoryText(d)
	case q.GetShareBytes() > 0:
		if milli = MemoryShare(d.GetMemoryBytes(), q.GetShareBytes()); milli > wholeDevice {
			return 0, "with " + memoryText(d)
		}
		return milli, ""
	case q.GetShareMilli() > 0:
		return q.GetShareMilli(), ""
	}
	return wholeDevice, ""
}

func memoryText(d *ohmv1.Device) string {
	if d.GetMemoryBytes() == 0 {
		return "memory that nobody knows"
	}
	return resource.FormatBytes(d.GetMemoryBytes())
}

// MemoryShare is the share of a device with that memory that so many bytes are, rounded up;
// more than the whole where it has fewer.
func MemoryShare(memory, bytes int64) int32 {
	if memory <= 0 || bytes > memory {
		return math.MaxInt32
	}
	return int32((bytes*wholeDevice + memory - 1) / memory) // at most 2^60: see resource.MaxBytes
}

// ChooseDevices chooses healthy devices of a node for a request, of those with the share
// free the fullest first. free is what a device has left, in thousandths. ok is false where there are too
// few; then it has chosen those that there are.
func ChooseDevices(n *ohmv1.Node, q *ohmv1.GPURequest, free func(id string) int32) (chosen []*ohmv1.DeviceShare, ok bool) {
	count := int(q.GetCount())
	if count == 0 {
		return nil, true
	}
	type device struct {
		share *ohmv1.DeviceShare
		free  int32
	}
	models, order := map[string][]device{}, []string(nil)
	for _, d := range n.GetGpus() {
		milli, why := ShareOn(d, q)
		if left := free(d.GetId()); why == "" && left >= milli && d.GetHealth() == DeviceHealthy {
			model := ""
			if q.GetSameModel() {
				model = d.GetModel()
			}
			if models[model] == nil {
				order = append(order, model)
			}
			models[model] = append(models[model], device{&ohmv1.DeviceShare{Id: d.GetId(), Milli: milli}, left})
		}
	}
	for _, model := range order {
		of := models[model]
		slices.SortStableFunc(of, func(a, b device) int { return int(a.free - b.free) })
		chosen = nil
		for _, d := range of[:min(count, len(of))] {
			chosen = append(chosen, d.share)
		}
		if len(chosen) == count {
			return chosen, true
		}
	}
	return chosen, false
}

// judgeDevices wants a claim to have the devices that its group asks for.
func judgeDevices(n *Node, q *ohmv1.GPURequest, c *Claim) *Conflict {
	if len(c.GPUs) < int(q.GetCount()) {
		return &Conflict{Reason: ReasonMalformed, Dimension: "gpus", Wanted: fmt.Sprint(q.GetCount()), Free: fmt.Sprint(len(c.GPUs))}
	}
	if q == nil {
		return nil
	}
	first := ""
	for _, g := range c.GPUs {
		d := n.device(g.GetId())
		if d == nil {
			continue // it is malformed
		}
		milli, why := ShareOn(d, q)
		switch {
		case why != "":
			return &Conflict{Reason: ReasonDevice, Dimension: g.GetId(), Wanted: "another one", Free: why}
		case g.GetMilli() < milli:
			return &Conflict{Reason: ReasonDevice, Dimension: g.GetId(), Wanted: fmt.Sprintf("%dm", milli), Free: fmt.Sprintf("%dm", g.GetMilli())}
		case q.GetSameModel() && first != "" && first != d.GetModel():
			return &Conflict{Reason: ReasonDevice, Dimension: g.GetId(), Wanted: first, Free: d.GetModel()}
		}
		first = d.GetModel()
	}
	return nil
}
