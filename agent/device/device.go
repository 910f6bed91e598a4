// Package device finds the GPUs of a machine and judges how they are.
//
// A Source says what is there now. Merge holds that against what was there before, so that
// a device that is late at a boot, or that its tools do not show for a moment, is not ready,
// instead of never having been; a Policy says what a fault means for new tasks and for those
// that have the device. Both are pure: who looks, and when, is the agent's business.
package device

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Device is one GPU as a source sees it.
type Device struct {
	ID     string  `json:"id"` // unique on the machine, and the same after a reboot
	Model  string  `json:"model"`
	Memory int64   `json:"memory,omitempty"` // bytes; 0: not known
	Faults []Fault `json:"faults,omitempty"` // that it has now
	Edits  Edits   `json:"edits,omitzero"`   // what a task needs in order to use it
}

// Fault is something that is wrong with a device, or that its driver says of a program on it.
type Fault struct {
	Code int    `json:"code"` // of the maker; for NVIDIA an Xid
	What string `json:"what"`
}

// Edits are what a task that has the device finds in its box.
type Edits struct {
	Env    map[string]string `json:"env,omitempty"`
	Nodes  []string          `json:"nodes,omitempty"`  // device files
	Mounts []string          `json:"mounts,omitempty"` // files of the machine, at the same path, read-only
	Hooks  []Hook            `json:"hooks,omitempty"`  // in order
}

// Hook is a program of the machine that completes a root file system for the device before the
// task's command starts, as an OCI runtime's createContainer hook does: it makes links to
// libraries and the list by which they are found, for instance.
type Hook struct {
	Path    string   `json:"path"`              // absolute, on the machine
	Args    []string `json:"args,omitempty"`    // the first is what it is called by; none: its path
	Env     []string `json:"env,omitempty"`     // name=value, all that it has
	Timeout int      `json:"timeout,omitempty"` // seconds; 0: the driver's own
}

// Source finds devices.
type Source interface {
	// Devices are all that are there now, in an order that stays. An error says that it
	// cannot be told now; that may pass.
	Devices(ctx context.Context) ([]Device, error)
}

// Parse reads devices that somebody names, id=model each or id=model@memory (T4@16Gi), and
// that are always well.
func Parse(texts []string) ([]*ohmv1.Device, error) {
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
		d := &ohmv1.Device{Id: id, Model: model}
		if name, size, has := strings.Cut(model, "@"); has {
			var err error
			if d.MemoryBytes, err = resource.ParseBytes(size); err != nil || name == "" {
				return nil, fmt.Errorf("GPU %q is not written as id=model@memory: %v", text, err)
			}
			d.Model = name
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// Merge is what the node says of its devices: those that the source sees now, judged by the
// policy, and those known from before that it does not see, or cannot tell of (err), as not
// ready. Known ones keep their place; new ones come after them. Nothing given is written to.
func Merge(known []*ohmv1.Device, seen []Device, err error, p Policy) []*ohmv1.Device {
	var merged []*ohmv1.Device
	left := slices.Clone(seen)
	for _, k := range known {
		at := slices.IndexFunc(left, func(d Device) bool { return d.ID == k.GetId() })
		if at < 0 || err != nil {
			why := "it is not found on the machine"
			if err != nil {
				why = err.Error()
			}
			merged = append(merged, &ohmv1.Device{Id: k.GetId(), Model: k.GetModel(), MemoryBytes: k.GetMemoryBytes(), Health: NotReady, Why: why})
			continue
		}
		merged = append(merged, p.judge(left[at]))
		left = slices.Delete(left, at, at+1)
	}
	if err != nil {
		return merged
	}
	for _, d := range left {
		merged = append(merged, p.judge(d))
	}
	return merged
}
