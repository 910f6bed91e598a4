package agent

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The usual range of a node's dynamic ports, and how many it should have at the least.
const (
	firstDynamic = 20000
	lastDynamic  = 32000
	fewDynamic   = 1000
	lastPort     = 65535
)

// parsePorts reads what is set of a node's ports; no range is nil.
func parsePorts(dynamic string, reserved []string) (*ohmv1.PortRange, []int32, error) {
	n := &ohmv1.Node{}
	if dynamic != "" {
		first, last, _ := strings.Cut(dynamic, "-")
		a, errA := strconv.ParseInt(first, 10, 32)
		b, errB := strconv.ParseInt(last, 10, 32)
		if errA != nil || errB != nil {
			return nil, nil, fmt.Errorf("dynamic ports %q are not written as first-last, such as %d-%d", dynamic, firstDynamic, lastDynamic)
		}
		n.DynamicPorts = &ohmv1.PortRange{First: int32(a), Last: int32(b)}
	}
	for _, text := range reserved {
		port, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return nil, nil, fmt.Errorf("reserved port %q is no number", text)
		}
		n.ReservedPorts = append(n.ReservedPorts, int32(port))
	}
	if err := cellstate.CheckPorts(n); err != nil {
		return nil, nil, err
	}
	return n.DynamicPorts, n.ReservedPorts, nil
}

// usualPorts is the usual range, where possible outside of the one from which the kernel
// takes ports for outgoing connections: what is in there may be in use at any time.
func usualPorts(kernelFirst, kernelLast int32) *ohmv1.PortRange {
	usual := &ohmv1.PortRange{First: firstDynamic, Last: lastDynamic}
	if kernelFirst > lastDynamic || kernelLast < firstDynamic {
		return usual
	}
	for _, r := range []*ohmv1.PortRange{
		{First: firstDynamic, Last: kernelFirst - 1},
		{First: kernelLast + 1, Last: min(lastPort, max(lastDynamic, kernelLast+lastDynamic-firstDynamic))},
		{First: max(1024, kernelFirst-(lastDynamic-firstDynamic)), Last: kernelFirst - 1},
	} {
		if r.GetLast()-r.GetFirst()+1 >= fewDynamic {
			return r
		}
	}
	return usual
}
