package cellstate

import (
	"fmt"
	"hash/fnv"
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// DynamicPorts is the dimension of a node that has too few ports of its range free.
const DynamicPorts = "dynamic ports"

const maxPort = 65535

// CheckPorts judges what a node says of its ports.
func CheckPorts(n *ohmv1.Node) error {
	if r := n.GetDynamicPorts(); r != nil && (r.GetFirst() < 1 || r.GetFirst() > r.GetLast() || r.GetLast() > maxPort) {
		return fmt.Errorf("%d-%d is no range of ports within 1-%d", r.GetFirst(), r.GetLast(), maxPort)
	}
	seen := map[int32]bool{}
	for _, p := range n.GetReservedPorts() {
		switch {
		case p < 1 || p > maxPort:
			return fmt.Errorf("reserved port %d is not within 1-%d", p, maxPort)
		case seen[p]:
			return fmt.Errorf("port %d is reserved twice", p)
		}
		seen[p] = true
	}
	return nil
}

// PortsFrom is where in a node's range the search for a slot's dynamic ports begins. It is
// spread over slots and attempts, so that schedulers which do not see each other's claims
// hardly ever choose the same port.
func PortsFrom(s Slot, attempt int) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, s, " ", attempt) // a hash never fails
	return h.Sum64()
}

// ChoosePorts chooses all ports of a task on a node together: the static ones, and for
// each dynamic one, from a place in the node's range on, the next that is neither taken
// nor reserved nor another one of the task's. Where that is not to be had, short is the
// static port, or DynamicPorts.
func ChoosePorts(n *ohmv1.Node, want []*ohmv1.Port, from uint64, taken func(port int32) bool) (ports []*ohmv1.Port, short string) {
	if len(want) == 0 {
		return nil, ""
	}
	mine := make(map[int32]bool, len(want))
	free := func(port int32) bool {
		return !mine[port] && !slices.Contains(n.GetReservedPorts(), port) && !taken(port)
	}
	for _, w := range want {
		if port := w.GetNumber(); port != 0 {
			if !free(port) {
				return nil, fmt.Sprint(port)
			}
			mine[port] = true
		}
	}
	first := n.GetDynamicPorts().GetFirst()
	size := uint64(n.GetDynamicPorts().GetLast() - first + 1)
	if first < 1 {
		size = 0
	}
	ports = make([]*ohmv1.Port, len(want))
	at := uint64(0)
	for i, w := range want {
		if w.GetNumber() != 0 {
			ports[i] = w
			continue
		}
		for ; at < size; at++ {
			port := first + int32((from%size+at)%size)
			if free(port) {
				mine[port] = true
				ports[i] = &ohmv1.Port{Name: w.GetName(), Number: port}
				break
			}
		}
		if ports[i] == nil {
			return nil, DynamicPorts
		}
	}
	return ports, ""
}

// judgePorts wants a claim to have the ports that its group asks for, the dynamic ones of
// the node's range; more do no harm.
func judgePorts(n *ohmv1.Node, want []*ohmv1.Port, c *Claim) *Conflict {
	for _, w := range want {
		at := slices.IndexFunc(c.Ports, func(h *ohmv1.Port) bool { return h.GetName() == w.GetName() })
		if at < 0 || w.GetNumber() != 0 && c.Ports[at].GetNumber() != w.GetNumber() {
			return &Conflict{Reason: ReasonMalformed, Dimension: "port " + w.GetName()}
		}
		r, port := n.GetDynamicPorts(), c.Ports[at].GetNumber()
		if w.GetNumber() == 0 && (port < r.GetFirst() || port > r.GetLast()) { // the range has changed
			return &Conflict{Reason: ReasonPort, Dimension: fmt.Sprint(port), Wanted: w.GetName(),
				Free: fmt.Sprintf("%d-%d", r.GetFirst(), r.GetLast())}
		}
	}
	return nil
}

// TakenPorts says which ports of a node are not to be had for a claim of that precedence:
// those of placements, of holds against it, and of the claims that are beside it.
func TakenPorts(n *Node, precedence int, claims []Claim) func(port int32) bool {
	owns := func(ports []*ohmv1.Port, port int32) bool {
		return slices.ContainsFunc(ports, func(p *ohmv1.Port) bool { return p.GetNumber() == port })
	}
	return func(port int32) bool {
		_, used := n.Used().Ports[port]
		return used ||
			slices.ContainsFunc(n.Holds, func(h *Hold) bool { return precedence <= int(h.GetPrecedence()) && owns(h.GetPorts(), port) }) ||
			slices.ContainsFunc(claims, func(c Claim) bool { return c.Node == n.Name && owns(c.Ports, port) })
	}
}
