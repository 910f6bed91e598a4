package place

import (
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

	lasting, passing []Filter // the filters by whether they depend on the node's records alone

	whole, part int // see maxWhole and maxPart

	mu         sync.Mutex // guards all below; held through a round
	snapshot   *cellstate.Snapshot
	candidates []Candidate // by name
	seen       [][]seen    // by candidate: its live placements that use GPUs
	index      map[cellstate.NodeName]int
	models     map[string]int // numbers of device models
	supply     []int          // devices by model

	census   census
	demand   demand
	patterns *patterns

	clock    uint64             // counts the changes
	changed  []uint64           // by candidate: the clock when it last changed
	log      []int32            // the candidates that changed last, up to the clock
	read     uint64             // the latest clock that a class has caught up with
	overlaid []int32            // candidates on which the last round has laid claims
	inFlight []bool             // by candidate: not to be chosen in this round
	barred   []int32            // those in flight
	reserved map[int]bool       // candidates on which room is reserved
	counts   []int32            // by candidate: of the present Load; else all 0
	returns  uint64             // counts the times when claims were given back
	columns  map[string]*column // labels of the candidates that rules have asked for
	classes  map[string]*class  // by Request.class
}

// NewTable is an empty table with the filters and the scorer of the product.
func NewTable() *Table {
	t := &Table{Filters: Filters(), whole: maxWhole, part: maxPart, classes: map[string]*class{}, reserved: map[int]bool{}}
	t.patterns = newPatterns()
	t.Scorer = &LeastStranded{&t.demand, t.patterns}
	t.demand.epoch = 1
	t.reset()
	return t
}

func (t *Table) reset() {
	t.candidates, t.seen, t.changed, t.inFlight, t.counts = nil, nil, nil, nil, nil
	t.overlaid, t.barred, t.log = t.overlaid[:0], t.barred[:0], t.log[:0]
	t.index, t.models, t.supply = map[cellstate.NodeName]int{}, map[string]int{}, nil
	t.census = census{shapes: map[shape]int{}}
	clear(t.classes)
	clear(t.patterns.of) // they name models by their numbers
	t.columns = nil
	clear(t.reserved)
}

// follow makes the table that of a snapshot, without a claim over it, at the price of
// the rows that differ and of the claims that were. If nodes have come or gone it begins
// anew.
func (t *Table) follow(s *cellstate.Snapshot) {
	changes, same := s.NodeChanges(t.snapshot)
	t.snapshot = s
	if !same {
		t.build(s)
		return
	}
	for i, n := range changes {
		// Snapshots of two origins may be alike in all but their nodes; then all rows differ.
		if t.candidates[i].Node.Name != n.Name {
			t.build(s)
			return
		}
		t.update(i, n)
	}
	for _, i := range t.overlaid {
		if c := &t.candidates[i]; c.claims != 0 { // else its row is new
			t.restore(int(i), c.Node)
		}
	}
	t.overlaid = t.overlaid[:0]
}

func (t *Table) build(s *cellstate.Snapshot) {
	t.reset()
	for n := range s.Nodes() {
		t.index[n.Name] = len(t.candidates)
		t.candidates = append(t.candidates, Candidate{Node: &cellstate.Node{Name: n.Name}})
		t.seen, t.changed, t.inFlight = append(t.seen, nil), append(t.changed, 0), append(t.inFlight, false)
		t.update(len(t.candidates)-1, n)
	}
	t.counts = make([]int32, len(t.candidates))
}

// update takes over a node's new row.
func (t *Table) update(i int, n *cellstate.Node) {
	c := &t.candidates[i]
	if c.Node.NodeRecords != n.NodeRecords {
		t.columns = nil
		for _, k := range t.classes {
			k.lasts[i] = notAsked
		}
	}
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
	if len(n.Used().GPUs) == 0 {
		return
	}
	for _, p := range n.Placements() {
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
	if len(n.Holds) > 0 && t.candidates[i].reserved() {
		t.reserved[i] = true
	} else if len(t.reserved) > 0 {
		delete(t.reserved, i)
	}
	t.touch(i)
}

// touch notes that a candidate has changed.
func (t *Table) touch(i int) {
	if n := len(t.log); n > 0 && int(t.log[n-1]) == i && t.read < t.clock {
		return // no class has seen the last change yet
	}
	t.clock++
	t.changed[i] = t.clock
	if keep := len(t.candidates) / sweepPart; len(t.log) > 2*keep { // what no class would follow
		t.log = append(t.log[:0], t.log[len(t.log)-keep:]...)
	}
	t.log = append(t.log, int32(i))
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

// bar makes the nodes with requests under way those that are not to be chosen.
func (t *Table) bar(names map[cellstate.NodeName]bool) {
	still := t.barred[:0]
	for _, i := range t.barred {
		if names[t.candidates[i].Node.Name] {
			still = append(still, i)
			continue
		}
		t.inFlight[i] = false
		t.touch(int(i))
	}
	t.barred = still
	for name, barred := range names {
		if i, known := t.index[name]; known && barred && !t.inFlight[i] {
			t.inFlight[i] = true
			t.barred = append(t.barred, int32(i))
			t.touch(i)
		}
	}
}
