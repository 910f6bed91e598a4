package place

import (
	"math"
	"sync"

	"github.com/ohmcell/ohm/cellstate"
)

// Table holds the candidates of a snapshot and what is remembered of them. It is used
// by one Round at a time; another waits for its end.
type Table struct {
	filters []Filter
	scorer  Scorer

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
	epoch   uint64            // counts what changes all scores
	classes map[string]*class // by Request.class
}

// maxClasses bounds the classes that are remembered; beyond it all are forgotten.
const maxClasses = 256

// NewTable is an empty table with the filters and the scorer of the product.
func NewTable() *Table {
	t := &Table{filters: Filters(), classes: map[string]*class{}}
	t.scorer = &LeastStranded{demand: &t.demand}
	t.reset()
	return t
}

func (t *Table) reset() {
	t.candidates, t.seen, t.changed = nil, nil, nil
	t.index, t.models, t.supply = map[cellstate.NodeName]int{}, map[string]int{}, nil
	t.census = census{shapes: map[shape]int{}}
	t.epoch++
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
		if len(p.GetGpus()) > 0 {
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
		t.demand = d
		t.epoch++
	}
}

// class is what is remembered of equal requests.
type class struct {
	*Request
	epoch    uint64
	verdicts []verdict // by candidate

	explained uint64 // the clock at which all candidates were asked for why
	why       []refusal
}

// verdict is a candidate's score at a clock; unfit where it does not fit.
type verdict struct {
	judged uint64
	score  float64
}

var unfit = math.Inf(-1)

// class finds or begins the class of a request.
func (t *Table) class(r *Request) *class {
	k := t.classes[r.class]
	if k == nil {
		if len(t.classes) >= maxClasses {
			clear(t.classes)
		}
		k = &class{Request: r}
		t.classes[r.class] = k
	}
	if k.epoch != t.epoch {
		k.epoch = t.epoch
		if len(k.verdicts) == len(t.candidates) {
			clear(k.verdicts)
		} else {
			k.verdicts = make([]verdict, len(t.candidates))
		}
	}
	return k
}

// judge renews the class's verdict on a candidate.
func (t *Table) judge(k *class, i int) {
	c, v := &t.candidates[i], &k.verdicts[i]
	v.judged, v.score = t.clock, unfit
	for _, f := range t.filters {
		if _, ok := f.Check(k.Request, c); !ok {
			return
		}
	}
	v.score = t.scorer.Score(k.Request, c.without(k.Precedence))
}
