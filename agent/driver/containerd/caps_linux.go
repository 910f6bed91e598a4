package containerd

import (
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/capability"
)

// caps are those of a container.
func caps(b driver.Box) ([]string, error) {
	own, err := capability.Own()
	if err != nil {
		return nil, err
	}
	return capability.Of(b, capability.Usual(), own)
}
