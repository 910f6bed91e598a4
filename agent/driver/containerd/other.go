//go:build !linux

package containerd

import (
	"errors"

	"github.com/ohmcell/ohm/agent/driver"
)

// Driver exists on Linux only.
type Driver struct{ driver.Driver }

// New fails: this driver needs Linux.
func New(Config) (*Driver, error) { return nil, errors.New("the containerd driver needs Linux") }

// Close has nothing to do where there is no driver.
func (*Driver) Close() error { return nil }
