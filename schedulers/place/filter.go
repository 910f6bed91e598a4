package place

import (
	"github.com/ohmcell/ohm/cellstate"
)

// Reasons of a choice that the commit does not know: see the filters Ready and Hollow.
const (
	ReasonNotReady = "NotReady"
	ReasonHollow   = "Hollow"
)

// Filters are all conditions of the product, in the order in which a node is asked: the
// reason that a user can do least about comes first.
func Filters() []Filter {
	return []Filter{Ready{}, Eligible{}, DiskFull{}, Hollow{}, Constraints{}, Abilities{}, Rules{}, Resources{}, Devices{}, Ports{}, Holds{}}
}

// answer of the lasting filters about a candidate, as a class remembers it until the node's
// records change.
type answer uint8

const (
	notAsked answer = iota
	yes
	no
)

// sort tells the filters that depend on the node's records alone from those that may answer
// otherwise after each placement.
func (t *Table) sort() {
	if len(t.lasting)+len(t.passing) > 0 {
		return
	}
	for _, f := range t.Filters {
		switch f.(type) {
		case Ready, Eligible, DiskFull, Hollow, Constraints, Abilities:
			t.lasting = append(t.lasting, f)
		default:
			t.passing = append(t.passing, f)
		}
	}
}

// takes says whether a candidate fits a class.
func (t *Table) takes(k *class, i int) bool {
	c := &t.candidates[i]
	if k.lasts[i] == notAsked {
		k.lasts[i] = no
		if fits(t.lasting, k.Request, c) {
			k.lasts[i] = yes
		}
	}
	return k.lasts[i] == yes && fits(t.passing, k.Request, c)
}

func (t *Table) fits(r *Request, c *Candidate) bool { return fits(t.Filters, r, c) }

func fits(filters []Filter, r *Request, c *Candidate) bool {
	for _, f := range filters {
		if _, ok := f.Check(r, c); !ok {
			return false
		}
	}
	return true
}

// Ready wants a node with facts and a live session.
type Ready struct{}

func (Ready) Name() string { return ReasonNotReady }
func (Ready) Check(_ *Request, c *Candidate) (string, bool) {
	return "", c.Node.Facts != nil && c.Node.Alive != nil
}

// Eligible wants a node that its operator neither drains nor keeps new tasks off.
type Eligible struct{}

func (Eligible) Name() string { return string(cellstate.ReasonIneligible) }
func (Eligible) Check(_ *Request, c *Candidate) (string, bool) {
	return "", !c.Node.Intent.GetIneligible() && !c.Node.Intent.GetDrain()
}

// DiskFull wants a node with room on its disk for what a task writes.
type DiskFull struct{}

func (DiskFull) Name() string { return string(cellstate.ReasonDiskFull) }
func (DiskFull) Check(_ *Request, c *Candidate) (string, bool) {
	return "", c.Node.Facts.GetDiskFull() == ""
}

// Hollow keeps tasks off simulated nodes unless one of their constraints speaks of
// them, with the key hollow: a real task that lands on one would only seem to run.
type Hollow struct{}

func (Hollow) Name() string { return ReasonHollow }
func (Hollow) Check(r *Request, c *Candidate) (string, bool) {
	return "", !c.hollow || r.wantsHollow()
}

// Constraints wants a node that satisfies all of the group's constraints.
type Constraints struct{}

func (Constraints) Name() string { return string(cellstate.ReasonConstraint) }
func (Constraints) Check(r *Request, c *Candidate) (string, bool) {
	failed, ok := cellstate.Matches(c.Node, r.Constraints)
	return failed.GetKey(), ok
}

// Abilities wants a node that can do what the group's tasks need of it.
type Abilities struct{}

func (Abilities) Name() string { return string(cellstate.ReasonCannot) }
func (Abilities) Check(r *Request, c *Candidate) (string, bool) {
	if lacks := r.Needs.Without(c.Can); lacks != 0 {
		return lacks.String(), false
	}
	return "", true
}

// Resources wants room in each additive dimension of which the task asks something.
type Resources struct{}

func (Resources) Name() string { return string(cellstate.ReasonResources) }
func (Resources) Check(r *Request, c *Candidate) (string, bool) {
	switch {
	case short(r.CPUMilli, c.FreeCPU):
		return "cpu", false
	case short(r.MemoryBytes, c.FreeMemory):
		return "memory", false
	case short(r.DiskBytes, c.FreeDisk):
		return "disk", false
	}
	return "", true
}

// short: nothing always fits, also where a node is over-committed; less than nothing never.
func short(want, free int64) bool { return want != 0 && (want < 0 || want > free) }

// Devices wants enough GPUs of an allowed model, where it matters of one, with the memory
// and with the share free.
type Devices struct{}

func (Devices) Name() string { return string(cellstate.ReasonResources) }
func (Devices) Check(r *Request, c *Candidate) (string, bool) {
	if r.SameModel {
		return "gpus", freeDevices(r, c) >= r.GPUs
	}
	free := 0
	for i := range c.GPUs {
		if free == r.GPUs {
			break
		}
		if r.takes(&c.GPUs[i]) {
			free++
		}
	}
	return "gpus", free >= r.GPUs
}

// Ports wants all ports of the task free, the dynamic ones any of the node's range.
type Ports struct{}

func (Ports) Name() string { return string(cellstate.ReasonPort) }
func (Ports) Check(r *Request, c *Candidate) (string, bool) {
	_, short := c.choosePorts(r, 0)
	return short, short == ""
}

// Holds wants room beside what is held for transactions of the task's precedence and above.
type Holds struct{}

func (Holds) Name() string { return string(cellstate.ReasonHold) }
func (Holds) Check(r *Request, c *Candidate) (string, bool) {
	left := c.without(r)
	if left == c {
		return "", true
	}
	if why, ok := (Resources{}).Check(r, left); !ok {
		return why, false
	}
	if why, ok := (Devices{}).Check(r, left); !ok {
		return why, false
	}
	return Ports{}.Check(r, left)
}
