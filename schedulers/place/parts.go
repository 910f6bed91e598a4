package place

import (
	"hash/fnv"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
)

// A choice looks at all candidates up to maxWhole of them. Of a larger cell it looks at a part,
// the one that comes first for the job, and at others only if nothing there is good enough. So
// the price of a choice does not grow with the cell. A part packs about as well as a cell of
// its size: docs/placement.md says what that comes to.
const (
	maxWhole = 2048
	maxPart  = 512
)

// goodEnough is a score with which a choice is content, in thousandths of a GPU: a node with a
// lower one is taken only if no other part has a better one.
const goodEnough = -400

// parts is how many there are.
func (t *Table) parts() int {
	n := len(t.candidates)
	if n <= t.whole {
		return 1
	}
	return (n + t.part - 1) / t.part
}

// begins is the first candidate of a part.
func (t *Table) begins(part int) int { return part * len(t.candidates) / t.parts() }

// partOf is the number of the part that comes first for a job.
func (t *Table) partOf(job cellstate.JobName) int {
	parts := t.parts()
	if parts == 1 {
		return 0
	}
	h := fnv.New32a()
	h.Write([]byte(job.Namespace)) // it never fails
	h.Write([]byte{0})
	h.Write([]byte(job.Name))
	return int(h.Sum32() % uint32(parts))
}

// choose is the best node for a class in the first part that has one that is good enough, from
// the given part on, in a circle; else the best of all. Nodes that come last do so here too, and
// then those with more tasks of the load's job. It says at how many parts it looked.
func (t *Table) choose(k *class, first int, home schedulers.Home, load *Load, seed uint64) (node, looked int, ok bool) {
	var best found
	for turn := range k.sections {
		looked++
		p := k.section(first, turn)
		t.catchUp(p, home, load)
		at, some := t.best(p, int(seed%uint64(p.end-p.first)))
		if !some {
			continue
		}
		is := found{score: p.tree.scores()[at]}
		is.last = isLast(is.score)
		if load != nil {
			is.level = p.level[0]
			if is.last {
				is.level = p.level[1]
			}
		}
		if !ok || is.before(best) {
			node, ok, best = p.first+at, true, is
		}
		if best.score >= goodEnough && (load == nil || best.level == load.first) {
			break
		}
	}
	return node, looked, ok
}

// section is the one at which a choice looks in that turn, from the first on, in a circle.
func (k *class) section(first, turn int) *section {
	return &k.sections[(first+turn)%len(k.sections)]
}

// found is what a choice knows of the best node of a part.
type found struct {
	last  bool
	level int32
	score float64
}

func (f found) before(o found) bool {
	if f.last != o.last {
		return o.last
	}
	return f.level < o.level || f.level == o.level && f.score > o.score
}
