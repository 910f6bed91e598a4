package place

import (
	"slices"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/ability"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Candidate is a node with the room that it has left. Amounts are negative where the
// node is over-committed.
type Candidate struct {
	Node                          *cellstate.Node
	FreeCPU, FreeMemory, FreeDisk int64 // milli, bytes, bytes
	GPUs                          []GPU // in the order of the node's facts
	Can                           ability.Set
	hollow                        bool        // simulated
	canOf                         *ohmv1.Node // the facts that Can and hollow were read from
	Holds                         []Hold
	ports                         []int32 // of the claims of this round, beside those of the placements
	freed                         []int32 // of placements that would give way
	live, claims                  int     // placements, and claims of this round
	sick                          int     // GPUs that are not healthy
	mixed                         bool    // the GPUs are not all of one model and size

	// lowest is the lowest precedence of a placement that may give way, plus one; or noneLower,
	// or unknown, because nobody has asked since the row came.
	lowest int32

	ofCPU, ofMemory float64  // of the whole node, what a thousandth of a core is and a byte; 0: it has none
	pattern         *pattern // of the GPUs; nil: not asked for since they changed
}

// GPU is a device of a candidate.
type GPU struct {
	ID, Model string
	Free      int32 // thousandths; none of one that is not healthy
	Memory    int64 // bytes; 0: not known
	model     int   // the table's number for Model
}

// Hold is room that is kept for somebody of that precedence; who stands strictly above
// it may take it all the same.
type Hold struct {
	Precedence        int
	Job               cellstate.JobName // for which it is reserved; zero: it is no reservation
	Left              time.Duration     // until it starts: what is over by then may pass; 0: nothing may
	CPU, Memory, Disk int64
	GPUs              []*ohmv1.DeviceShare
	Ports             []*ohmv1.Port
	starts            time.Time
}

// fill makes c the candidate of a row, reusing c's memory.
func (c *Candidate) fill(n *cellstate.Node, model func(string) int) {
	capacity, used, can, hollow := n.Facts.GetCapacity(), n.Used(), c.Can, c.hollow
	if c.canOf != n.Facts {
		can, hollow = ability.Of(n.Facts.GetCapabilities()), n.Facts.GetAttributes()["hollow"] == "true"
	}
	*c = Candidate{
		Node: n, GPUs: c.GPUs[:0], Holds: c.Holds[:0], ports: c.ports[:0], Can: can, hollow: hollow, canOf: n.Facts, live: n.Count(),
		FreeCPU:    capacity.GetCpuMilli() - used.CPUMilli,
		FreeMemory: capacity.GetMemoryBytes() - used.MemoryBytes,
		FreeDisk:   capacity.GetDiskBytes() - used.DiskBytes,
	}
	c.ofCPU, c.ofMemory = resource.Part(1, capacity.GetCpuMilli()), resource.Part(1, capacity.GetMemoryBytes())
	for _, d := range n.Facts.GetGpus() {
		free := wholeGPU - used.GPUs[d.GetId()]
		if d.GetHealth() != cellstate.DeviceHealthy {
			free = min(0, free)
			c.sick++
		}
		c.GPUs = append(c.GPUs, GPU{d.GetId(), d.GetModel(), free, d.GetMemoryBytes(), model(d.GetModel())})
		c.mixed = c.mixed || c.GPUs[0].model != c.GPUs[len(c.GPUs)-1].model || c.GPUs[0].Memory != d.GetMemoryBytes()
	}
	if len(n.Holds) > 0 {
		c.hold(n)
	}
}

func (c *Candidate) hold(n *cellstate.Node) {
	for _, k := range n.Kept() {
		h := Hold{
			Precedence: int(k.Hold.GetPrecedence()),
			CPU:        k.Resources.GetCpuMilli(), Memory: k.Resources.GetMemoryBytes(), Disk: k.Resources.GetDiskBytes(), GPUs: k.GPUs, Ports: k.Ports,
		}
		if k.Hold.GetReserves() {
			h.Job = cellstate.SlotOf(k.Hold.GetSlot()).JobName()
			h.starts = k.Hold.GetStarts().AsTime()
			if k.Hold.GetStarts() == nil {
				h.starts = time.Time{}
			}
		}
		c.Holds = append(c.Holds, h)
	}
}

// reserved says whether room is reserved on the node.
func (c *Candidate) reserved() bool {
	return slices.ContainsFunc(c.Holds, func(h Hold) bool { return h.Job != cellstate.JobName{} })
}

// binds says whether a hold keeps a request off.
func (h *Hold) binds(r *Request) bool {
	passes := r.Runs > 0 && r.Runs <= h.Left
	return r.Precedence <= h.Precedence && !passes && (h.Job == cellstate.JobName{} || h.Job != r.reserved)
}

// without is c less the room that is held against a request; c itself where none is.
func (c *Candidate) without(r *Request) *Candidate {
	left := c
	for i := range c.Holds {
		h := &c.Holds[i]
		if !h.binds(r) {
			continue
		}
		if left == c {
			copied := *c
			copied.GPUs, copied.ports = slices.Clone(c.GPUs), slices.Clone(c.ports)
			left = &copied
		}
		left.FreeCPU -= h.CPU
		left.FreeMemory -= h.Memory
		left.FreeDisk -= h.Disk
		left.charge(h.GPUs, 1)
		left.own(h.Ports, 1)
	}
	return left
}

// cost is what a claim takes of a candidate: milli, bytes, bytes, and shares of its devices.
type cost struct {
	cpu, memory, disk int64
	gpus              []*ohmv1.DeviceShare
	ports             []*ohmv1.Port
}

func (r *Request) cost(gpus []*ohmv1.DeviceShare, ports []*ohmv1.Port) cost {
	return cost{r.CPUMilli, r.MemoryBytes, r.DiskBytes, gpus, ports}
}

// take charges c with a claim, or gives it back (times -1).
func (c *Candidate) take(k cost, times int) {
	c.FreeCPU -= k.cpu * int64(times)
	c.FreeMemory -= k.memory * int64(times)
	c.FreeDisk -= k.disk * int64(times)
	c.charge(k.gpus, int32(times))
	c.own(k.ports, times)
	c.claims += times
}

func (c *Candidate) charge(gpus []*ohmv1.DeviceShare, times int32) {
	if len(gpus) > 0 {
		c.pattern = nil
	}
	for _, g := range gpus {
		for i := range c.GPUs {
			if c.GPUs[i].ID == g.GetId() {
				c.GPUs[i].Free -= g.GetMilli() * times
			}
		}
	}
}

// own adds to the ports that are taken, or gives back (times -1).
func (c *Candidate) own(ports []*ohmv1.Port, times int) {
	for _, p := range ports {
		if times > 0 {
			c.ports = append(c.ports, p.GetNumber())
		} else if i := slices.Index(c.ports, p.GetNumber()); i >= 0 {
			c.ports = slices.Delete(c.ports, i, i+1)
		}
	}
}

// choosePorts chooses the ports of a task of r, from a place in the node's range on.
func (c *Candidate) choosePorts(r *Request, from uint64) (ports []*ohmv1.Port, short string) {
	if len(r.Ports) == 0 {
		return nil, ""
	}
	return cellstate.ChoosePorts(c.Node.Facts, r.Ports, from, func(port int32) bool {
		_, owned := c.Node.Used().Ports[port]
		return owned && !slices.Contains(c.freed, port) || slices.Contains(c.ports, port) || slices.Contains(r.Busy, reconcile.BusyPort{Node: c.Node.Name, Port: port})
	})
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
