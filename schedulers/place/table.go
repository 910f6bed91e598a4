package place

import (
	"math"
	"sync"

	"github.com/ohmcell/ohm/cellstate"
)

// Table holds the candidates of a snapshot and what is remembered of them. It is used
// by one Round at a time; another waits for its end.
type Table struct {
	// Filters and Scorer may be changed before the first round. A filter or scorer looks
	// at nothing but what it is given: its answer is remembered until the node changes.
	Filters []Filter
	Scorer  Scorer

	mu         sync.Mutex // guards all below; held through a round
	snapshot   *cellstate.Snapshot
	candidates []Candidate // by name
	seen       [][]seen    // by candidate: its live placements that use GPUs
	index      map[cellstate.NodeName]int
	models     map[string]int // numbers of device models
	supply     []int          // devices by model

	census census
	demand demand

	clock   uint64            // counts the changes
	changed []uint64          // by candidate: the clock when it last changed
	classes map[string]*class // by Request.class
}

// maxClasses bounds the classes that are remembered; beyond it all are forgotten.
const maxClasses = 256

// NewTable is an empty table with the filters and the scorer of the product.
func NewTable() *Table {
	t := &Table{Filters: Filters(), classes: map[string]*class{}}
	t.Scorer = &LeastStranded{demand: &t.demand}
	t.demand.epoch = 1
	t.reset()
	return t
}

func (t *Table) reset() {
	t.candidates, t.seen, t.changed = nil, nil, nil
	t.index, t.models, t.supply = map[cellstate.NodeName]int{}, map[string]int{}, nil
	t.census = census{shapes: map[shape]int{}}
	clear(t.classes)
}

// follow makes the table that of a snapshot, at the price of the rows that differ. If
// nodes have come or gone it begins anew.
func (t *Table) follow(s *cellstate.Snapshot) {
	if s == t.snapshot {
		return
	}
	t.snapshot = s
	i := 0
	for n := range s.Nodes() {
		if i == len(t.candidates) || t.candidates[i].Node.Name != n.Name {
			t.build(s)
			return
		}
		if t.candidates[i].Node != n {
			t.update(i, n)
		}
		i++
	}
	if i != len(t.candidates) {
		t.build(s)
	}
}

func (t *Table) build(s *cellstate.Snapshot) {
	t.reset()
	for n := range s.Nodes() {
		t.index[n.Name] = len(t.candidates)
		t.candidates = append(t.candidates, Candidate{Node: &cellstate.Node{Name: n.Name}})
		t.seen, t.changed = append(t.seen, nil), append(t.changed, 0)
		t.update(len(t.candidates)-1, n)
	}
}

// update takes over a node's new row.
func (t *Table) update(i int, n *cellstate.Node) {
	c := &t.candidates[i]
	for _, g := range c.GPUs {
		t.supply[g.model]--
	}
	for _, s := range t.seen[i] {
		t.census.count(s, -1)
	}
	t.restore(i, n)
	for _, g := range c.GPUs {
		t.supply[g.model]++
	}
	t.seen[i] = t.seen[i][:0]
	for _, p := range n.Placements {
		if g := p.GetGpus(); len(g) > 0 && g[0].GetMilli() > 0 {
			s := seenPlacement(t.snapshot, p)
			t.seen[i] = append(t.seen[i], s)
			t.census.count(s, 1)
		}
	}
}

// restore makes a candidate what its row says.
func (t *Table) restore(i int, n *cellstate.Node) {
	t.candidates[i].fill(n, t.model)
	t.touch(i)
}

func (t *Table) touch(i int) {
	t.clock++
	t.changed[i] = t.clock
}

// model is the number of a device model.
func (t *Table) model(name string) int {
	m, known := t.models[name]
	if !known {
		m = len(t.supply)
		t.models[name] = m
		t.supply = append(t.supply, 0)
	}
	return m
}

// learn takes the demand from the census.
func (t *Table) learn() {
	if d := t.census.demand(t.supply, t.models); !d.same(t.demand) {
		d.epoch = t.demand.epoch + 1
		t.demand = d
	}
}

// class is what is remembered of equal requests.
type class struct {
	*Request
	verdicts []verdict // by candidate

	explained uint64 // the clock at which all candidates were asked for why
	why       []refusal
}

// verdict is what the filters said of a candidate at a clock, and what the scorer said
// of it in an epoch of the demand.
type verdict struct {
	judged, scored uint64
	fits           bool
	score          float64
}

// unfit is the score of a node that does not fit.
var unfit = math.Inf(-1)

// class finds or begins the class of a request.
func (t *Table) class(r *Request) *class {
	k := t.classes[r.class]
	if k == nil {
		if len(t.classes) >= maxClasses {
			clear(t.classes)
		}
		k = &class{Request: r, verdicts: make([]verdict, len(t.candidates))}
		t.classes[r.class] = k
	}
	return k
}

// score is what a candidate is worth to a class; unfit if it does not fit.
func (t *Table) score(k *class, i int) float64 {
	v := &k.verdicts[i]
	if v.judged < t.changed[i] {
		*v = verdict{judged: t.clock, fits: t.fits(k.Request, &t.candidates[i])}
	}
	if !v.fits {
		return unfit
	}
	if v.scored != t.demand.epoch {
		v.scored = t.demand.epoch
		v.score = t.Scorer.Score(k.Request, t.candidates[i].without(k.Precedence))
	}
	return v.score
}

func (t *Table) fits(r *Request, c *Candidate) bool {
	for _, f := range t.Filters {
		if _, ok := f.Check(r, c); !ok {
			return false
		}
	}
	return true
}
