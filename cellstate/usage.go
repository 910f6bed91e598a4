package cellstate

import (
	"maps"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Usage is what a node is charged with. Shares are in thousandths of a GPU.
type Usage struct {
	CPUMilli, MemoryBytes, DiskBytes int64
	GPUs                             map[string]int32
	Ports                            map[int32]Slot // owner
}

func (u *Usage) add(r *ohmv1.Resources, gpus []*ohmv1.DeviceShare) {
	u.CPUMilli += r.GetCpuMilli()
	u.MemoryBytes += r.GetMemoryBytes()
	u.DiskBytes += r.GetDiskBytes()
	for _, g := range gpus {
		if u.GPUs == nil {
			u.GPUs = map[string]int32{}
		}
		u.GPUs[g.GetId()] += g.GetMilli()
	}
}

func (u *Usage) addPorts(s Slot, ports []*ohmv1.Port) {
	for _, p := range ports {
		if u.Ports == nil {
			u.Ports = map[int32]Slot{}
		}
		u.Ports[p.GetNumber()] = s
	}
}

// addKept adds what is kept for somebody.
func (u *Usage) addKept(k *Kept) {
	u.add(k.Resources, k.GPUs)
	u.addPorts(SlotOf(k.Hold.GetSlot()), k.Ports)
}

// plus is the usage with a claim added.
func (u *Usage) plus(c *Claim) *Usage {
	sum := *u
	if len(c.GPUs) > 0 {
		sum.GPUs = maps.Clone(u.GPUs)
	}
	if len(c.Ports) > 0 {
		sum.Ports = maps.Clone(u.Ports)
		sum.addPorts(c.Slot, c.Ports)
	}
	sum.add(c.Resources, c.GPUs)
	return &sum
}

// addLarger adds, in each dimension, the larger of a and b.
func (u *Usage) addLarger(a, b *Usage) {
	u.CPUMilli += max(a.CPUMilli, b.CPUMilli)
	u.MemoryBytes += max(a.MemoryBytes, b.MemoryBytes)
	u.DiskBytes += max(a.DiskBytes, b.DiskBytes)
	for id, milli := range a.GPUs {
		u.add(nil, []*ohmv1.DeviceShare{{Id: id, Milli: max(milli, b.GPUs[id])}})
	}
	for id, milli := range b.GPUs {
		if _, counted := a.GPUs[id]; !counted {
			u.add(nil, []*ohmv1.DeviceShare{{Id: id, Milli: milli}})
		}
	}
	for _, from := range []*Usage{a, b} {
		for port, slot := range from.Ports {
			u.addPorts(slot, []*ohmv1.Port{{Number: port}})
		}
	}
}

// charge is the rule of L5: a node is charged, in each dimension, with its ordinary
// placements plus, for each eviction set, the larger of the victims still present
// and the evictors. Holds are not in it.
func charge(placements []*Placement) *Usage {
	total := &Usage{}
	type set struct{ victims, heirs Usage }
	var sets map[string]*set
	in := func(txn string) *set {
		if sets == nil {
			sets = map[string]*set{}
		}
		if sets[txn] == nil {
			sets[txn] = &set{}
		}
		return sets[txn]
	}
	for _, p := range placements {
		to := total
		switch {
		case p.GetEvictedBy() != "": // also if it is an heir itself: its own victims stay charged below
			to = &in(p.GetEvictedBy()).victims
		case len(p.GetVictims()) > 0:
			to = &in(p.GetTxn()).heirs
		}
		to.add(p.GetResources(), p.GetGpus())
		to.addPorts(p.Slot, p.GetPorts())
	}
	for _, s := range sets {
		total.addLarger(&s.victims, &s.heirs)
	}
	return total
}
