package place

// What needs no device keeps off the nodes that have some while any other will do, however
// good they are for it: it would only be in the way of what needs them. That comes before
// the score and before the spreading of a service, and after what rules between tasks say.

// lastPrice is what a node costs that comes last: more than all else about it together.
const lastPrice = 1 << 30

// comesLast says whether a candidate is one that a request leaves to others.
func (r *Request) comesLast(c *Candidate) bool { return !r.Anywhere && len(c.GPUs) > 0 }

// isLast says of a score whether it is of a node that comes last.
func isLast(score float64) bool { return score < -lastPrice/2 }

// best is the best node of a section that has caught up, counted from its first; of equal ones
// the first from the given one on, all in a circle. Where nodes are masked and no other will do, the level
// rises to the next at which one does: first that of the nodes that do not come last.
func (t *Table) best(k *section, from int) (node int, ok bool) {
	for {
		node, ok = k.tree.best(from)
		switch {
		case k.load == nil, ok && !isLast(k.tree.scores()[node]):
			return node, ok
		case t.raise(k, false):
		case ok:
			return node, true
		case !t.raise(k, true):
			return 0, false
		}
	}
}

// raise raises the level of the nodes that come last, or of the others, to the next at
// which there are some that are masked; false: there is none.
func (t *Table) raise(k *section, last bool) bool {
	of, l := 0, k.load
	if last {
		of = 1
	}
	if k.Anywhere && last {
		return false // no node comes last
	}
	moved, some := l.moved[of], [][]int32{l.nodes[of]}
	if k.Anywhere {
		moved, some = l.moved[0]+l.moved[1], l.nodes[:]
	}
	if k.spent[of] == moved+1 {
		return false // nothing has changed since there was none
	}
	next := l.last + 1
	for _, nodes := range some {
		for _, i := range nodes {
			if n := t.counts[i]; n > k.level[of] {
				next = min(next, n)
			}
		}
	}
	if next > l.last {
		k.spent[of] = moved + 1
		return false
	}
	k.level[of] = next
	for _, nodes := range some {
		for _, i := range nodes {
			if t.counts[i] == next {
				t.set(k, i)
			}
		}
	}
	return true
}

// levelOf is above which number of tasks of the load's job a candidate is masked.
func (k *section) levelOf(c *Candidate) int32 {
	if k.comesLast(c) {
		return k.level[1]
	}
	return k.level[0]
}
