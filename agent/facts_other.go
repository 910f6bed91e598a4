//go:build !linux

package agent

import (
	"errors"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Facts are known of Linux machines only.
func Facts(c FactsConfig) (*ohmv1.Node, error) {
	if _, err := parseGPUs(c.GPUs); err != nil {
		return nil, err
	}
	return nil, errors.New("an agent needs Linux")
}
