package place

import "github.com/ohmcell/ohm/cellstate"

// Stranded is how much of the free GPU of some nodes of a snapshot nobody could use, in
// thousandths, as LeastStranded sees it; with no names of all. A node without a session counts
// nothing.
func (t *Table) Stranded(s *cellstate.Snapshot, names ...cellstate.NodeName) (milli float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.follow(s)
	t.learn()
	scorer := &LeastStranded{demand: &t.demand}
	of := func(c *Candidate) {
		if c.Node.Alive != nil && len(c.GPUs) > 0 {
			milli += scorer.starved(c.freeGPU(), c.FreeCPU, c.FreeMemory) + scorer.broken(c, nil, 0)
		}
	}
	if names == nil {
		for i := range t.candidates {
			of(&t.candidates[i])
		}
	}
	for _, name := range names {
		if i, known := t.index[name]; known {
			of(&t.candidates[i])
		}
	}
	return milli
}
