package place

import (
	"math"

	"github.com/ohmcell/ohm/schedulers"
)

// class is what is remembered of equal requests.
type class struct {
	*Request
	sections []section
	scores   []float64 // of the sections, one after the other
	lasts    []answer  // of the lasting filters, by candidate; shared by classes with the same on
	on       string    // what the request asks of the records
	used     uint64    // the clock when it was last wanted

	rigid    rigid // why nothing gave way
	rigidFor plea  // and to what

	explained uint64 // the clock at which all candidates were asked for why
	why       []refusal
}

// section is the score that each candidate of a part of the table has for a class, brought up
// to date when it is next used.
type section struct {
	*class
	first, end int             // candidates
	tree       tree            // what each is worth in the round; see Table.value
	at         uint64          // the clock of the tree
	demand     uint64          // the epoch of the demand that the scores are of; 0: there are none
	home       schedulers.Home // the share that the scores are of

	load    *Load     // the nodes of which are masked while they have too many tasks of its job; nil: none
	level   [2]int32  // more than so many are too many; of the nodes that come last, the second
	spent   [2]uint64 // the moves of the load, plus one, up to which no level has more to give
	returns uint64    // the table's, when the level was begun
	masked  []int32   // at least the candidates that are masked
	spare   []int32   // memory for masked
}

// maxClasses bounds the classes that are remembered.
const maxClasses = 256

// class finds or begins the class of a request. One too many takes the place of the one
// that has not been used for longest.
func (t *Table) class(r *Request) *class {
	k := t.classes[r.class]
	if k == nil {
		if len(t.classes) >= maxClasses {
			var oldest *class
			for _, o := range t.classes {
				if oldest == nil || o.used < oldest.used {
					oldest = o
				}
			}
			delete(t.classes, oldest.Request.class)
		}
		plain := *r // identical tasks are one class, whatever the rules between them and others
		plain.rules, plain.turn, plain.asked = nil, 0, t.patterns.number(r)
		n := len(t.candidates)
		k = &class{Request: &plain, sections: make([]section, t.parts()), scores: make([]float64, n), on: string(r.terms(nil))}
		for _, o := range t.classes {
			if o.on == k.on {
				k.lasts = o.lasts
				break
			}
		}
		if k.lasts == nil {
			k.lasts = make([]answer, n)
		}
		for i := range k.sections {
			k.sections[i] = section{class: k, first: t.begins(i), end: t.begins(i + 1)}
		}
		t.classes[r.class] = k
	}
	k.used = t.clock
	return k
}

// scoresOf are the scores of all candidates for a class, up to date.
func (t *Table) scoresOf(k *class, home schedulers.Home) []float64 {
	for i := range k.sections {
		t.catchUp(&k.sections[i], home, nil)
	}
	return k.scores
}

// sweepPart is which part of the candidates may have changed before a class does better
// to look at all of them than to follow the log.
const sweepPart = 8

// catchUp brings a section up to date, with the nodes of a load masked.
func (t *Table) catchUp(k *section, home schedulers.Home, load *Load) {
	if k.demand == 0 {
		k.tree = newTree(k.class.scores[k.first:k.end])
	}
	var stale []int32
	other := k.load != load || (load != nil && k.returns != t.returns)
	if other {
		stale = k.masked
		k.masked, k.spare = k.spare[:0], stale
		k.load, k.returns = load, t.returns
		if load != nil {
			k.level, k.spent = [2]int32{load.first, load.first}, [2]uint64{}
		}
	}
	scores := k.tree.scores()
	switch behind := t.clock - k.at; {
	case k.demand != t.demand.epoch || k.home != home:
		k.demand, k.home = t.demand.epoch, home
		for i := range scores {
			switch {
			case t.changed[k.first+i] > k.at:
				scores[i] = t.value(k, k.first+i)
			case scores[i] != unfit:
				scores[i] = t.score(k, k.first+i)
			}
		}
		k.tree.rebuild()
	case behind > uint64(min(len(t.log), len(scores)/sweepPart)):
		for i := k.first; i < k.end; i++ {
			if t.changed[i] > k.at {
				t.set(k, int32(i))
			}
		}
	default:
		for n, i := range t.log[len(t.log)-int(behind):] {
			if t.changed[i] == k.at+uint64(n)+1 { // else it comes once more
				t.set(k, i)
			}
		}
	}
	k.at, t.read = t.clock, t.clock
	for _, i := range stale {
		t.set(k, i)
	}
	if other && load != nil {
		for _, nodes := range load.nodes {
			for _, i := range nodes {
				t.set(k, i)
			}
		}
	}
}

// set brings the score of one candidate up to date, if it is of the section.
func (t *Table) set(k *section, i int32) {
	if at := int(i) - k.first; int(i) < k.end && at >= 0 {
		k.tree.set(at, t.value(k, int(i)))
	}
}

// value is what a candidate is worth to a class in this round: its score less the price
// of the home share; unfit if it is in flight, masked, or does not fit.
func (t *Table) value(k *section, i int) float64 {
	if t.inFlight[i] {
		return unfit
	}
	if k.load != nil && t.counts[i] > k.levelOf(&t.candidates[i]) {
		k.masked = append(k.masked, int32(i))
		return unfit
	}
	if !t.takes(k.class, i) {
		return unfit
	}
	return t.score(k, i)
}

// score is what a candidate that fits is worth.
func (t *Table) score(k *section, i int) float64 {
	c := t.candidates[i].without(k.Request)
	score := t.Scorer.Score(k.Request, c) - price(k.home, i)
	if k.comesLast(c) {
		score -= lastPrice
	}
	if math.IsNaN(score) {
		return unfit
	}
	return score
}
