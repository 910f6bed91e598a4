package packing

import (
	"context"
	"hash/fnv"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cmd/ohm/openb"
	"github.com/ohmcell/ohm/pkg/resource"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/place"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// contender is a way to choose among the nodes that fit.
type contender struct {
	name   string
	scorer func(tasks []openb.Task) place.Scorer // that knows what will come; nil: Ohm's own
}

func contenders() []contender {
	plain := func(s place.Scorer) func([]openb.Task) place.Scorer {
		return func([]openb.Task) place.Scorer { return s }
	}
	return []contender{
		{"random", plain(random{})}, {"worst fit", plain(fit{worst: true})}, {"best fit", plain(fit{})}, {"first fit", plain(first{})},
		{"FGD", func(tasks []openb.Task) place.Scorer { return newFGD(tasks) }},
		{"Ohm", nil},
	}
}

// policy is one that places each task where the scorer says.
type policy struct {
	table   *place.Table
	inOrder bool // of equal nodes the first by name, not one that the seed decides
}

func (c contender) policy(tasks []openb.Task) schedulers.Scheduler {
	p := policy{table: place.NewTable()}
	if c.scorer != nil {
		p.table.Scorer, p.inOrder = c.scorer(tasks), true
	}
	return p
}

func (p policy) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	if p.inOrder {
		in.Seed = 0
	}
	return p.table.Each(ctx, in, func(r *place.Round, w schedulers.Work) (*cellstate.Txn, []schedulers.Unplaced) {
		return r.Incremental(w, func(q *place.Request, _ reconcile.Need) (node int, ok bool) { return r.Choose(q, nil) })
	})
}

// first takes the first node by name: all are equally good.
type first struct{}

func (first) Name() string                                   { return "first fit" }
func (first) Score(*place.Request, *place.Candidate) float64 { return 0 }

// random takes any; a node draws a new lot whenever it changes.
type random struct{}

func (random) Name() string { return "random" }
func (random) Score(_ *place.Request, c *place.Candidate) float64 {
	h := fnv.New64a()
	h.Write([]byte(c.Node.Name))
	state := uint64(c.FreeCPU)*31 + uint64(c.FreeMemory)
	for i := range c.GPUs {
		state = state*31 + uint64(c.GPUs[i].Free)
	}
	h.Write([]byte{byte(state), byte(state >> 8), byte(state >> 16), byte(state >> 24), byte(state >> 32), byte(state >> 40)})
	return float64(h.Sum64() >> 12)
}

// fit prefers the node of which the least part stays free, of CPU, memory and GPU together, or
// the most.
type fit struct{ worst bool }

func (fit) Name() string { return "best fit" }
func (f fit) Score(r *place.Request, c *place.Candidate) float64 {
	have := c.Node.Facts.GetCapacity()
	left := resource.Part(c.FreeCPU-r.CPUMilli, have.GetCpuMilli()) + resource.Part(c.FreeMemory-r.MemoryBytes, have.GetMemoryBytes())
	gpu := int64(0)
	for i := range c.GPUs {
		gpu += int64(c.GPUs[i].Free)
	}
	left += resource.Part(gpu-int64(r.GPUs)*int64(r.Share), 1000*int64(len(c.GPUs)))
	if f.worst {
		return left
	}
	return -left
}
