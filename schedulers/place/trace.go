package place

import (
	"cmp"
	"slices"

	"github.com/ohmcell/ohm/schedulers"
)

// bestKept is how many of the nodes considered a decision names.
const bestKept = 4

// trace notes for the decision log what the first choice for a request, or the first one of its
// job, was made among: so many parts of the cell, which have caught up.
func (r *Round) trace(q *Request, k *class, looked int) {
	if q.traced {
		return
	}
	q.traced = true
	d := schedulers.Decision{
		Job: q.of.job.Name, Group: q.of.of.GetName(), Nodes: len(r.t.candidates), InFlight: len(r.t.barred),
		Best: make([]schedulers.Scored, 0, bestKept), ScoredBy: r.t.Scorer.Name(),
	}
	for turn := range looked {
		part := k.section(q.part, turn)
		d.Considered += part.tree.fit
		var best [bestKept]int
		found := part.tree.leading(&best)
		for _, i := range best[:found] {
			if len(q.rules) == 0 || r.keeps(q, part.first+i) {
				d.Best = append(d.Best, schedulers.Scored{Node: r.t.candidates[part.first+i].Node.Name, Score: part.tree.scores()[i]})
			}
		}
	}
	if looked > 1 {
		slices.SortStableFunc(d.Best, func(a, b schedulers.Scored) int { return cmp.Compare(b.Score, a.Score) })
		d.Best = d.Best[:min(len(d.Best), bestKept)]
	}
	r.decisions = append(r.decisions, d)
}

// leading fills in the candidates with the best scores, the best first, and says how many there
// are: of each level only so many can lead to one.
func (t *tree) leading(best *[bestKept]int) (found int) {
	top := len(t.levels) - 1
	if len(t.levels[top]) == 0 || t.levels[top][0] == unfit {
		return 0
	}
	best[0], found = 0, 1
	for l := top - 1; l >= 0; l-- {
		level := t.levels[l]
		var next [bestKept]int
		n := 0
		for _, above := range best[:found] {
			for i := above * fan; i < min(len(level), (above+1)*fan); i++ {
				score := level[i]
				if score == unfit || n == bestKept && score <= level[next[n-1]] {
					continue
				}
				if n < bestKept {
					n++
				}
				at := n - 1
				for ; at > 0 && level[next[at-1]] < score; at-- {
					next[at] = next[at-1]
				}
				next[at] = i
			}
		}
		*best, found = next, n
	}
	return found
}
