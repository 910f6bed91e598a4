package place

import (
	"cmp"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Option is a node that fits a request, with the devices that a task would get there.
type Option struct {
	node int
	gpus []*ohmv1.DeviceShare
}

// Options are at most most ways to place a request, on the best nodes first and on each
// with the devices that Claim would choose first. Devices that are alike are one option.
// Unless all are wanted, so are nodes of one score, which are mostly alike, and on each node
// there is only the first choice of devices.
func (r *Round) Options(q *Request, most int, all bool) []Option {
	scores := r.t.scoresOf(r.class(q), r.home)
	var nodes []int
	for i, score := range scores {
		if score != unfit && r.keeps(q, i) {
			nodes = append(nodes, i)
		}
	}
	slices.SortStableFunc(nodes, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	if !all {
		nodes = slices.CompactFunc(nodes, func(a, b int) bool { return scores[a] == scores[b] })
	}
	var options []Option
	for _, i := range nodes[:min(len(nodes), most)] {
		free := r.t.candidates[i].without(q)
		if !all || q.GPUs == 0 {
			options = append(options, Option{i, shares(q, free)})
			continue
		}
		for _, gpus := range choices(q, free, most-len(options)) {
			options = append(options, Option{i, gpus})
		}
		if len(options) == most {
			break
		}
	}
	return options
}

// choices are at most most ways to give a task devices of c: the fullest first, and of
// devices with the same model and the same free share only the first ones.
func choices(q *Request, c *Candidate, most int) (all [][]*ohmv1.DeviceShare) {
	var fit []*GPU
	for i := range c.GPUs {
		if g := &c.GPUs[i]; q.takes(g) {
			fit = append(fit, g)
		}
	}
	slices.SortStableFunc(fit, func(a, b *GPU) int { return cmp.Compare(a.Free, b.Free) })
	var chosen []*ohmv1.DeviceShare
	model := 0 // of those chosen
	var next func(from int)
	next = func(from int) {
		if len(chosen) == q.GPUs {
			all = append(all, slices.Clone(chosen))
			return
		}
		for i := from; i < len(fit) && len(all) < most; i++ {
			alike := func(g *GPU) bool {
				return g.model == fit[i].model && g.Free == fit[i].Free && g.Memory == fit[i].Memory
			}
			if slices.ContainsFunc(fit[from:i], alike) {
				continue // to leave one out and take its like is the same choice
			}
			if q.SameModel && len(chosen) > 0 && fit[i].model != model {
				continue
			}
			model = fit[i].model
			chosen = append(chosen, &ohmv1.DeviceShare{Id: fit[i].ID, Milli: q.on(fit[i])})
			next(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	next(0)
	return all
}

// ClaimOption claims an option of the overlay as it stands for a slot, in the overlay too.
func (r *Round) ClaimOption(job *cellstate.Job, need reconcile.Need, o Option) cellstate.Claim {
	claim := r.t.candidates[o.node].claim(r.Request(job, need.Group), job, need)
	claim.GPUs = o.gpus
	r.claimed(job, need, o.node, claim)
	return claim
}

// Nodes is how many nodes a search may have to look at.
func (r *Round) Nodes() int { return len(r.t.candidates) }
