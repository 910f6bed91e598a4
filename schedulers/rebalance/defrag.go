package rebalance

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
)

const (
	emptyTries  = 64  // nodes that are looked at to be emptied
	emptyMoves  = 8   // tasks that one node may be emptied of
	singleTries = 256 // tasks that are looked at to be moved alone
	leastGain   = 100 // thousandths of a GPU for which a task is moved
)

// Defrag plans moves in the whole cell: first those that empty a node, those with the fewest
// tasks first, by moving all of them to nodes that are in use; then such as leave less GPU
// stranded. None leaves more of it stranded than there was before. At most so many moves.
func Defrag(ctx context.Context, s *cellstate.Snapshot, most int) (Plan, error) {
	t := newTrial(s)
	if err := t.empty(ctx, most); err != nil {
		return Plan{}, err
	}
	if err := t.unstrand(ctx, most); err != nil {
		return Plan{}, err
	}
	return Plan{Moves: t.moves, Before: t.measure(s), After: t.measure(t.snapshot)}, nil
}

func (t *trial) measure(s *cellstate.Snapshot) (m Measure) {
	m.StrandedGPU = int64(t.table.Stranded(s))
	for n := range s.Nodes() {
		if n.Alive != nil && tasksOn(s, n) == 0 {
			m.Empty++
		}
	}
	return m
}

// frees is how much less GPU is stranded after the moves that next has made on top of t.
func (t *trial) frees(next *trial) float64 {
	var touched []cellstate.NodeName
	for _, m := range next.moves[len(t.moves):] {
		for _, n := range []cellstate.NodeName{cellstate.NodeName(m.Placement.GetNode()), m.To} {
			if !slices.Contains(touched, n) {
				touched = append(touched, n)
			}
		}
	}
	return t.table.Stranded(t.snapshot, touched...) - t.table.Stranded(next.snapshot, touched...)
}

// tasksOn counts a node's tasks, those of system jobs left out, which stand on every node.
func tasksOn(s *cellstate.Snapshot, n *cellstate.Node) (tasks int) {
	for _, p := range n.Unsorted() {
		if s.Job(p.Slot.JobName()).Record.GetSpec().GetKind() != "system" {
			tasks++
		}
	}
	return tasks
}

// empty empties what nodes it can.
func (t *trial) empty(ctx context.Context, most int) error {
	type source struct {
		name  cellstate.NodeName
		tasks int
		used  int64
	}
	var sources []source
	unused := map[cellstate.NodeName]bool{} // where nothing is to be opened
	for n := range t.snapshot.Nodes() {
		switch tasks := tasksOn(t.snapshot, n); {
		case tasks == 0:
			unused[n.Name] = true
		case tasks <= emptyMoves && tasks == len(t.movable(n)):
			sources = append(sources, source{n.Name, tasks, n.Used().CPUMilli})
		}
	}
	slices.SortFunc(sources, func(a, b source) int {
		return cmp.Or(a.tasks-b.tasks, cmp.Compare(a.used, b.used), cmp.Compare(a.name, b.name))
	})
	for _, from := range sources[:min(len(sources), emptyTries)] {
		n := t.snapshot.Node(from.name)
		tasks := t.movable(n)
		if len(tasks) != tasksOn(t.snapshot, n) || len(t.moves)+len(tasks) > most {
			continue // something has come here meanwhile
		}
		next := t.clone()
		unused[from.name] = true
		whole := true
		for _, p := range tasks {
			ok, err := next.move(ctx, p, unused)
			if err != nil {
				return err
			}
			if whole = whole && ok; !whole {
				break
			}
		}
		if !whole || t.frees(next) < 0 {
			delete(unused, from.name)
			continue
		}
		*t = *next
	}
	return nil
}

// unstrand moves single tasks from the nodes with most GPU stranded.
func (t *trial) unstrand(ctx context.Context, most int) error {
	type source struct {
		name  cellstate.NodeName
		milli float64
	}
	var sources []source
	unused := map[cellstate.NodeName]bool{}
	for n := range t.snapshot.Nodes() {
		if tasksOn(t.snapshot, n) == 0 {
			unused[n.Name] = true
		} else if milli := t.table.Stranded(t.snapshot, n.Name); milli >= leastGain {
			sources = append(sources, source{n.Name, milli})
		}
	}
	slices.SortFunc(sources, func(a, b source) int { return cmp.Or(cmp.Compare(b.milli, a.milli), cmp.Compare(a.name, b.name)) })
	tries := singleTries
	for _, from := range sources {
		barred := maps.Clone(unused)
		barred[from.name] = true
		for _, p := range t.movable(t.snapshot.Node(from.name)) {
			if tries--; tries < 0 || len(t.moves) >= most {
				return nil
			}
			next := t.clone()
			ok, err := next.move(ctx, p, barred)
			if err != nil {
				return err
			}
			if ok && t.frees(next) >= leastGain {
				*t = *next
			}
		}
	}
	return nil
}
