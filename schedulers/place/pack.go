package place

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Pack claims at most most nodes for needs of a job: again and again the one that takes
// most of those that are left, as far as it goes, and of equal ones the best. left are the
// needs that found no room so. Of identical needs, no other nodes of that number take more.
func (r *Round) Pack(job *cellstate.Job, needs []reconcile.Need, most int) (claims []cellstate.Claim, left []reconcile.Need) {
	p := &packing{round: r, job: job, left: slices.Clone(needs)}
	p.begin()
	for nodes := 0; nodes < most && len(p.left) > 0 && len(p.queue) > 0; {
		first := &p.queue[0]
		// What a node takes was counted when more were left, or others; as a rule it takes no more now.
		if now := p.takes(first.node); now < first.takes {
			first.takes = now
			if now == 0 {
				heap.Pop(p)
			} else {
				heap.Fix(p, 0)
			}
			continue
		}
		claims = p.fill(claims, first.node)
		heap.Pop(p)
		nodes++
	}
	return claims, p.left
}

// packing is the heap of the nodes that may be claimed, the one that takes most on top.
type packing struct {
	round *Round
	job   *cellstate.Job
	left  []reconcile.Need
	queue []packed
}

type packed struct {
	node, takes int
	score       float64
	turn        int // tells equal ones apart, by the seed
}

func (p *packing) begin() {
	t := p.round.t
	if len(p.left) == 0 || len(t.candidates) == 0 {
		return
	}
	k := &section{class: &class{Request: p.request(p.left[0])}, home: p.round.home}
	from := int(p.round.seed % uint64(len(t.candidates)))
	for i := range t.candidates {
		if t.inFlight[i] {
			continue
		}
		if takes := p.takes(i); takes > 0 {
			turn := (i - from + len(t.candidates)) % len(t.candidates)
			p.queue = append(p.queue, packed{i, takes, t.score(k, i), turn})
		}
	}
	heap.Init(p)
}

func (p *packing) request(n reconcile.Need) *Request { return p.round.Request(p.job, n.Group) }

// takes is how many of the needs that are left a node takes, one after the other.
func (p *packing) takes(node int) (n int) {
	t := p.round.t
	c := t.candidates[node]
	c.GPUs, c.ports = slices.Clone(c.GPUs), slices.Clone(c.ports)
	full := map[*Request]bool{}
	for _, need := range p.left {
		q := p.request(need)
		if full[q] {
			continue
		}
		if !t.fits(q, &c) {
			if full[q] = true; len(p.job.Record.GetSpec().GetGroups()) == len(full) {
				break
			}
			continue
		}
		free := c.without(q)
		ports, _ := free.choosePorts(q, cellstate.PortsFrom(need.Slot, need.Attempt))
		c.take(q.cost(shares(q, free), ports), 1)
		n++
	}
	return n
}

// fill claims a node for all needs that takes has counted.
func (p *packing) fill(claims []cellstate.Claim, node int) []cellstate.Claim {
	p.left = slices.DeleteFunc(p.left, func(need reconcile.Need) bool {
		if !p.round.t.fits(p.request(need), &p.round.t.candidates[node]) {
			return false
		}
		claims = append(claims, p.round.Claim(p.job, need, node))
		return true
	})
	return claims
}

func (p *packing) Len() int { return len(p.queue) }
func (p *packing) Less(a, b int) bool {
	x, y := &p.queue[a], &p.queue[b]
	return cmp.Or(cmp.Compare(y.takes, x.takes), cmp.Compare(y.score, x.score), cmp.Compare(x.turn, y.turn)) < 0
}
func (p *packing) Swap(a, b int) { p.queue[a], p.queue[b] = p.queue[b], p.queue[a] }
func (p *packing) Push(any)      {} // nothing is added
func (p *packing) Pop() any {
	p.queue = p.queue[:len(p.queue)-1]
	return nil
}
