//go:build !linux

package nvidia

import "github.com/ohmcell/ohm/agent/device"

// faults are told by Linux only.
func (Source) faults() (map[string][]device.Fault, error) { return nil, nil }
