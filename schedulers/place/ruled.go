package place

import (
	"math"

	"github.com/ohmcell/ohm/cellstate"
)

// chooseRuled finds the best node for a request that rules between tasks concern: of those
// that no required rule refuses the one that the rules like best, then one with few tasks of
// the job, as load says, then the best score.
//
// Where the rules only keep tasks off nodes, those are masked as the load masks them, and
// the choice costs no walk. Else it goes through the scores that the class remembers: the
// rules say of each domain what they think of it, and of a node only which domain it is in.
func (r *Round) chooseRuled(q *Request, load *Load) (node int, ok bool) {
	if r.masks(q) {
		return r.best(q, r.ban(q, load))
	}
	k := r.class(q)
	scores := r.t.scoresOf(k, r.home)
	r.trace(q, k, len(k.sections))
	for n := range q.rules {
		q.rules[n].judge()
	}
	w := tour{
		scores: scores, first: &q.rules[0], others: q.rules[1:],
		best: -1, price: math.MaxInt32, count: math.MaxInt32, score: unfit,
	}
	if load != nil {
		w.load, w.counts = load, r.t.counts
	}
	from := int(r.seed % uint64(len(r.t.candidates)))
	w.look(from, len(w.scores))
	w.look(0, from)
	return w.best, w.best >= 0
}

// tour is a way through the candidates, and the best so far.
type tour struct {
	scores []float64
	first  *ruling
	others []ruling
	load   *Load
	counts []int32 // of tasks, with a load

	best         int
	price, count int32
	score        float64
}

// look looks at some of the candidates.
func (w *tour) look(from, end int) {
	verdict, of := w.first.verdict, w.first.column.of[:end]
	for i := from; i < end; i++ {
		price, score := verdict[of[i]+1], w.scores[i]
		if price > w.price || price == refused || score == unfit {
			continue
		}
		var ok bool
		if price, ok = w.add(price, i); !ok || price > w.price {
			continue
		}
		count := int32(0)
		if w.load != nil {
			if count = max(w.load.first, w.counts[i]); count > w.load.last {
				continue
			}
		}
		if isLast(score) {
			count += comesLast
		}
		if price < w.price || count < w.count || count == w.count && score > w.score {
			w.best, w.price, w.count, w.score = i, price, count, score
		}
	}
}

// add adds what the other rules say; false: one refuses.
func (w *tour) add(price int32, i int) (int32, bool) {
	for n := range w.others {
		g := &w.others[n]
		p := g.verdict[g.column.of[i]+1]
		if p == refused {
			return 0, false
		}
		price += p
	}
	return price, true
}

// comesLast is what a node that comes last counts, beside the tasks of the job.
const comesLast = 1 << 28

// banned is what a node counts, as tasks of the job, that a rule keeps tasks off.
const banned = 1 << 29

// bans are the nodes that are masked for a request.
type bans struct {
	of *Request
	on map[int32]bool
}

// masks says whether the rules of a request only keep tasks off single nodes.
func (r *Round) masks(q *Request) bool {
	for i := range q.rules {
		g := &q.rules[i]
		if g.Kind != cellstate.Apart || !g.Required || len(g.column.names) != len(g.column.of) {
			return false
		}
	}
	return true
}

// ban is the load of the job at work, or one that counts nothing, with the nodes masked that
// the rules of a request keep tasks off.
func (r *Round) ban(q *Request, load *Load) *Load {
	if load == nil {
		if r.load == nil {
			r.load = &Load{t: r.t, first: banned - 1, last: banned - 1}
		}
		load = r.load
	}
	if r.bans.of == q {
		return load
	}
	for i := range r.bans.on {
		load.count(int(i), -banned)
	}
	r.bans = bans{of: q, on: map[int32]bool{}}
	for i := range r.t.candidates {
		r.mask(i)
	}
	r.t.returns++ // what is masked has changed
	return load
}

// mask brings the mask of a candidate up to date.
func (r *Round) mask(i int) {
	if r.bans.of == nil {
		return
	}
	switch on := r.bans.on[int32(i)]; {
	case r.keeps(r.bans.of, i) == !on:
	case on:
		delete(r.bans.on, int32(i))
		r.load.count(i, -banned)
	default:
		r.bans.on[int32(i)] = true
		r.load.count(i, banned)
	}
}
