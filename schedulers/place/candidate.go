package place

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/ability"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Candidate is a node with the room that it has left. Amounts are negative where the
// node is over-committed.
type Candidate struct {
	Node                          *cellstate.Node
	FreeCPU, FreeMemory, FreeDisk int64 // milli, bytes, bytes
	GPUs                          []GPU // in the order of the node's facts
	Can                           ability.Set
	canOf                         *ohmv1.Node // the facts that Can was read from
	Holds                         []Hold
	live, claims                  int // placements, and claims of this round
	sick                          int // GPUs that are not healthy

	// broken is what the scorer found broken of the GPUs in an epoch of the demand;
	// epoch 0: not asked since they changed.
	broken      float64
	brokenEpoch uint64
}

// GPU is a device of a candidate.
type GPU struct {
	ID, Model string
	Free      int32 // thousandths; none of one that is not healthy
	model     int   // the table's number for Model
}

// Hold is room that is kept for somebody of that precedence; who stands strictly above
// it may take it all the same.
type Hold struct {
	Precedence        int
	CPU, Memory, Disk int64
	GPUs              []*ohmv1.DeviceShare
}

// fill makes c the candidate of a row, reusing c's memory.
func (c *Candidate) fill(n *cellstate.Node, model func(string) int) {
	capacity, used, can := n.Facts.GetCapacity(), n.Used(), c.Can
	if c.canOf != n.Facts {
		can = ability.Of(n.Facts.GetCapabilities())
	}
	*c = Candidate{
		Node: n, GPUs: c.GPUs[:0], Holds: c.Holds[:0], Can: can, canOf: n.Facts, live: n.Count(),
		FreeCPU:    capacity.GetCpuMilli() - used.CPUMilli,
		FreeMemory: capacity.GetMemoryBytes() - used.MemoryBytes,
		FreeDisk:   capacity.GetDiskBytes() - used.DiskBytes,
	}
	for _, d := range n.Facts.GetGpus() {
		free := wholeGPU - used.GPUs[d.GetId()]
		if d.GetHealth() != cellstate.DeviceHealthy {
			free = min(0, free)
			c.sick++
		}
		c.GPUs = append(c.GPUs, GPU{d.GetId(), d.GetModel(), free, model(d.GetModel())})
	}
	for _, h := range n.Holds {
		r := h.GetResources()
		c.Holds = append(c.Holds, Hold{int(h.GetPrecedence()), r.GetCpuMilli(), r.GetMemoryBytes(), r.GetDiskBytes(), h.GetGpus()})
	}
}

// without is c less the room that is held against a precedence; c itself where none is.
func (c *Candidate) without(precedence int) *Candidate {
	left := c
	for _, h := range c.Holds {
		if precedence > h.Precedence {
			continue
		}
		if left == c {
			copied := *c
			copied.GPUs = append([]GPU(nil), c.GPUs...)
			left = &copied
		}
		left.FreeCPU -= h.CPU
		left.FreeMemory -= h.Memory
		left.FreeDisk -= h.Disk
		left.charge(h.GPUs, 1)
	}
	return left
}

// take charges c with a task of r on the given devices, or gives it back (times -1).
func (c *Candidate) take(r *Request, gpus []*ohmv1.DeviceShare, times int) {
	c.FreeCPU -= r.CPUMilli * int64(times)
	c.FreeMemory -= r.MemoryBytes * int64(times)
	c.FreeDisk -= r.DiskBytes * int64(times)
	c.charge(gpus, int32(times))
	c.claims += times
}

func (c *Candidate) charge(gpus []*ohmv1.DeviceShare, times int32) {
	if len(gpus) > 0 {
		c.brokenEpoch = 0
	}
	for _, g := range gpus {
		for i := range c.GPUs {
			if c.GPUs[i].ID == g.GetId() {
				c.GPUs[i].Free -= g.GetMilli() * times
			}
		}
	}
}

// empty says whether nothing stands on the node and nothing was claimed on it.
func (c *Candidate) empty() bool { return c.live+c.claims == 0 }

// freeGPU is what is free of all GPUs together, in thousandths.
func (c *Candidate) freeGPU() (all int64) {
	for i := range c.GPUs {
		all += int64(max(0, c.GPUs[i].Free))
	}
	return all
}
