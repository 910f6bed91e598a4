package native

import (
	"cmp"
	"slices"

	"github.com/ohmcell/ohm/agent/driver"
)

// program is one container of a task.
type program struct {
	Name    string // empty: driver.MainName
	Role    driver.Role
	Command []string
	Env     []string
	Box     driver.Box
	Root    root // no layers: the node's own
}

func (p program) name() string { return cmp.Or(p.Name, driver.MainName) }

// all are the task's containers, in order.
func (sp spec) all() []program { return append(slices.Clone(sp.Before), sp.program) }

// set puts a container in the place of the one of its name, or after all that start before
// the main one.
func (sp *spec) set(p program) {
	i := slices.IndexFunc(sp.Before, func(b program) bool { return b.Name == p.Name })
	switch {
	case p.Role == driver.Main:
		sp.program = p
	case i >= 0:
		sp.Before[i] = p
	default:
		sp.Before = append(sp.Before, p)
	}
}

// folder is where the command begins.
func (p program) folder(scratch string) string {
	switch {
	case p.Box.Dir != "":
		return p.Box.Dir
	case len(p.Root.Layers) > 0:
		return scratchTarget
	}
	return scratch
}
