package place

import (
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// giving is what victims of the transaction at work give on one node, and what its claims
// take of that. Until the victims are gone the node is charged with the larger of the two, so
// a claim costs the node only what they do not give (L5). It is never written to.
type giving struct {
	victims      []victim
	frees, takes amounts
	freed        []int32 // ports of the victims
}

// amounts is room on one candidate; gpus are in the order of its devices.
type amounts struct {
	cpu, memory, disk int64
	gpus              []int32
}

// frees is the room on c that a placement gives when it goes; a device that is not well gives
// nothing.
func (c *Candidate) frees(e cellstate.Evictable) amounts {
	a := amounts{e.Frees.CPUMilli, e.Frees.MemoryBytes, e.Frees.DiskBytes, make([]int32, len(c.GPUs))}
	for i := range c.GPUs {
		if c.Node.Facts.GetGpus()[i].GetHealth() == cellstate.DeviceHealthy {
			a.gpus[i] = e.Frees.GPUs[c.GPUs[i].ID]
		}
	}
	return a
}

// give adds to c the room of a placement that goes, or takes it back (times -1).
func (c *Candidate) give(e cellstate.Evictable, times int64) {
	c.add(c.frees(e), times)
	for port := range e.Frees.Ports {
		if times > 0 {
			c.freed = append(c.freed, port)
		} else if i := slices.Index(c.freed, port); i >= 0 {
			c.freed = slices.Delete(c.freed, i, i+1)
		}
	}
	c.live -= int(times)
}

func (c *Candidate) add(a amounts, times int64) {
	c.FreeCPU += a.cpu * times
	c.FreeMemory += a.memory * times
	c.FreeDisk += a.disk * times
	for i, milli := range a.gpus {
		c.GPUs[i].Free += milli * int32(times)
	}
	c.pattern = nil
}

func (c *Candidate) copy() Candidate {
	out := *c
	out.GPUs, out.ports, out.freed = slices.Clone(c.GPUs), slices.Clone(c.ports), slices.Clone(c.freed)
	return out
}

// view is a candidate as a claim of the same transaction may use it: with all that the victims
// give and no claim has taken of it. g may be nil.
func (g *giving) view(c *Candidate) Candidate {
	view := c.copy()
	if g != nil {
		view.add(g.frees.over(g.takes), 1)
		view.freed = slices.Clone(g.freed)
	}
	return view
}

// plus is g with the victims of one more claim and what that takes; g may be nil.
func (g *giving) plus(e *Eviction, took amounts) *giving {
	after := &giving{freed: slices.Clone(e.view.freed), takes: took}
	if g != nil {
		after.victims, after.frees = slices.Clone(g.victims), g.frees
		after.takes = g.takes.plus(took)
	}
	for _, v := range e.victims {
		after.victims = append(after.victims, v)
		after.frees = after.frees.plus(e.view.frees(v.Evictable))
	}
	return after
}

// grown is what the node is charged with in g and was not in before, which may be nil.
func (g *giving) grown(before *giving) amounts {
	is := g.takes.over(g.frees)
	if before == nil {
		return is
	}
	return is.over(before.takes.over(before.frees))
}

func (a amounts) plus(b amounts) amounts {
	return a.each(b, func(x, y int64) int64 { return x + y })
}

// over is, of each, by how much a is more than b.
func (a amounts) over(b amounts) amounts {
	return a.each(b, func(x, y int64) int64 { return max(0, x-y) })
}

func (a amounts) each(b amounts, f func(x, y int64) int64) amounts {
	out := amounts{f(a.cpu, b.cpu), f(a.memory, b.memory), f(a.disk, b.disk), make([]int32, max(len(a.gpus), len(b.gpus)))}
	of := func(gpus []int32, i int) int64 {
		if i < len(gpus) {
			return int64(gpus[i])
		}
		return 0 // an empty one has no list
	}
	for i := range out.gpus {
		out.gpus[i] = int32(f(of(a.gpus, i), of(b.gpus, i)))
	}
	return out
}

// amounts is what a cost takes of c.
func (c *Candidate) amounts(k cost) amounts {
	a := amounts{k.cpu, k.memory, k.disk, make([]int32, len(c.GPUs))}
	for _, d := range k.gpus {
		for i := range c.GPUs {
			if c.GPUs[i].ID == d.GetId() {
				a.gpus[i] = d.GetMilli()
			}
		}
	}
	return a
}

// cost is amounts as a claim takes them of c.
func (c *Candidate) cost(a amounts) cost {
	k := cost{cpu: a.cpu, memory: a.memory, disk: a.disk}
	for i, milli := range a.gpus {
		if milli > 0 {
			k.gpus = append(k.gpus, &ohmv1.DeviceShare{Id: c.GPUs[i].ID, Milli: milli})
		}
	}
	return k
}
