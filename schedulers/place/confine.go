package place

import (
	"cmp"
	"math"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Domain is what the nodes with one value of a label have free together, of those that have
// room for a task of the work.
type Domain struct {
	Name string
	// Room: together they have as much as all tasks of the work ask for. Whether these fit is
	// another question.
	Room bool
	free sums
}

// sums are thousandths of GPUs and cores, and bytes.
type sums struct{ gpu, cpu, memory int64 }

func (a sums) holds(b sums) bool {
	return a.gpu >= b.gpu && a.cpu >= b.cpu && a.memory >= b.memory
}

// Domains are those of a label in which a task of the work would fit, as the overlay stands:
// those with room first, and among them the one with the least, which is the tightest; of
// the others first what has the most.
func (r *Round) Domains(w schedulers.Work, label string) []Domain {
	column := r.t.column(label)
	all := make([]Domain, len(column.names))
	var want sums
	fit := make([]bool, len(r.t.candidates))
	var last *Request
	for _, need := range w.Needs {
		q := r.Request(w.Job, need.Group)
		want.gpu += int64(q.GPUs) * int64(q.Share)
		want.cpu += q.CPUMilli
		want.memory += q.MemoryBytes
		if q == last {
			continue
		}
		last = q
		for i, score := range r.t.scoresOf(r.class(q), r.home) {
			fit[i] = fit[i] || score != unfit
		}
	}
	some := make([]bool, len(all))
	for i, ok := range fit {
		d := column.of[i]
		if !ok || d < 0 {
			continue
		}
		c := &r.t.candidates[i]
		some[d] = true
		all[d].free.gpu += c.freeGPU()
		all[d].free.cpu += max(0, c.FreeCPU)
		all[d].free.memory += max(0, c.FreeMemory)
	}
	of := all[:0]
	for d, ok := range some {
		if ok {
			of = append(of, Domain{column.names[d], all[d].free.holds(want), all[d].free})
		}
	}
	slices.SortFunc(of, func(a, b Domain) int {
		if a.Room != b.Room {
			return cmp.Compare(rank(b.Room), rank(a.Room))
		}
		less := cmp.Or(cmp.Compare(a.free.gpu, b.free.gpu), cmp.Compare(a.free.cpu, b.free.cpu), cmp.Compare(a.free.memory, b.free.memory))
		if !a.Room {
			less = -less
		}
		return cmp.Or(less, cmp.Compare(a.Name, b.Name))
	})
	return of
}

func rank(room bool) int {
	if room {
		return 1
	}
	return 0
}

// DomainNames are all values that nodes have of a label, sorted.
func (r *Round) DomainNames(label string) []string {
	return slices.Sorted(slices.Values(r.t.column(label).names))
}

// Confine keeps all tasks of the work to the nodes of one domain of a label, until what it
// returns is called. The note tells people why, of the other nodes.
func (r *Round) Confine(w schedulers.Work, label, domain, note string) (free func()) {
	column := r.t.column(label)
	k := &counts{column: column, stands: make([]int32, len(column.names)), selected: make([]int32, len(column.names)), owners: make([]int32, len(column.names)), all: 1}
	if d, ok := column.number[domain]; ok {
		k.stands[d], k.selected[d] = 1, 1
	}
	rule := &cellstate.Rule{Kind: cellstate.Together, Within: label, Required: true, Gang: true}
	confined := ruling{Concern: &cellstate.Concern{Rule: rule, Owns: true}, counts: k, note: note}
	var of []*Request
	var before [][]ruling
	for _, need := range w.Needs {
		q := r.Request(w.Job, need.Group)
		if slices.Contains(of, q) {
			continue
		}
		of, before = append(of, q), append(before, q.rules)
		q.rules = append([]ruling{confined}, q.rules...)
	}
	r.unban()
	return func() {
		for i, q := range of {
			q.rules = before[i]
		}
		r.unban()
	}
}

// unban forgets what is masked for a request's rules: they are others now.
func (r *Round) unban() {
	if r.bans.of == nil {
		return
	}
	for i := range r.bans.on {
		r.load.count(int(i), -banned)
	}
	r.bans = bans{}
	r.t.returns++
}

// MayEvict says whether anything could give way for a task of the work.
func (r *Round) MayEvict(w schedulers.Work) bool {
	return !r.evictions.Now.IsZero() && r.evictions.Most > 0 &&
		slices.ContainsFunc(w.Needs, func(n reconcile.Need) bool {
			return r.lowest(math.MinInt32, r.Request(w.Job, n.Group).Precedence) != noneLower
		})
}

// Alone says whether any node has room for a request, rules between tasks left aside.
func (r *Round) Alone(q *Request) bool {
	if len(r.t.candidates) == 0 {
		return false
	}
	_, _, ok := r.t.choose(r.class(q), q.part, r.home, nil, 0)
	return ok
}

// Ruled says whether a required rule between tasks concerns a request.
func (q *Request) Ruled() bool {
	return slices.ContainsFunc(q.rules, func(g ruling) bool { return g.Required })
}

// DomainOf is the value that a node has of a label.
func (r *Round) DomainOf(label string, node cellstate.NodeName) (string, bool) {
	i, known := r.t.index[node]
	if !known {
		return "", false
	}
	column := r.t.column(label)
	if d := column.of[i]; d >= 0 {
		return column.names[d], true
	}
	return "", false
}
