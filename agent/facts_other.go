//go:build !linux

package agent

import (
	"errors"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Facts are known of Linux machines only.
func Facts(FactsConfig) (*ohmv1.Node, error) {
	return nil, errors.New("an agent needs Linux")
}

// PortBusy knows of Linux machines only.
func PortBusy(int32) bool { return false }
