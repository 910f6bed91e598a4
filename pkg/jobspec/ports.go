package jobspec

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Limits of the ports of one task.
const (
	maxPorts = 64
	maxPort  = 65535
)

// ports reads a map of names and numbers.
func (r *reader) ports(at place, node ast.Node) (ports []*ohmv1.Port) {
	r.eachKey(at, node, func(name string, _ position, value ast.Node) {
		here := at.key(name)
		here.name = at.name + "." + name
		ports = append(ports, &ohmv1.Port{Name: name, Number: r.whole(here, value)})
	})
	slices.SortFunc(ports, byName)
	return ports
}

// networks are those that a task may be in.
func networks() []string { return []string{"host", "own"} }

func byName(a, b *ohmv1.Port) int { return strings.Compare(a.GetName(), b.GetName()) }

func checkPorts(ps *problems, at string, ports []*ohmv1.Port) {
	if len(ports) > maxPorts {
		ps.add(at, "the task has %d ports, more than the limit of %d", len(ports), maxPorts)
	}
	seen, owner := map[string]bool{}, map[int32]string{}
	for _, p := range ports {
		name, number := p.GetName(), p.GetNumber()
		field := at + "." + name
		if err := names.Check("port name", name); err != nil {
			ps.check(field, err)
			continue
		}
		switch other, twice := owner[number]; {
		case seen[name]:
			ps.add(field, "two ports are named %s", quote(name))
		case number < 0 || number > maxPort:
			ps.add(field, "port %s is %d, which is not from 1 to %d, or 0 for a dynamic one", name, number, maxPort)
		case number > 0 && twice:
			ps.add(field, "port %s is %d, and so is port %s", name, number, other)
		}
		seen[name], owner[number] = true, name
	}
}
