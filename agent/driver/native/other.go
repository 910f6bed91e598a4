//go:build !linux

package native

import (
	"errors"

	"github.com/ohmcell/ohm/agent/driver"
)

// Driver exists on Linux only.
type Driver struct{ driver.Driver }

// New fails: this driver needs Linux.
func New(Config) (*Driver, error) { return nil, errors.New("the native driver needs Linux") }

// Main has nothing to do where there is no driver.
func Main([]string) int { return 2 }
