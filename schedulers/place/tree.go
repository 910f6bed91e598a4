package place

import "math"

// unfit is the score of a node that is not to be chosen.
var unfit = math.Inf(-1)

// fan is how many scores one score of the level above stands for: a line of the
// processor's cache.
const fan = 8

// tree holds a score for each candidate, and over them, level by level, the best of
// each fan, so that the best of all is found, and a score changed, without a walk.
type tree struct {
	levels [][]float64 // of 1/fan of the length each; the last is of length 1
	fit    int         // scores that are not unfit
}

// newTree is a tree in which all is unfit, with the scores in the given memory.
func newTree(level []float64) tree {
	var t tree
	for {
		for i := range level {
			level[i] = unfit
		}
		t.levels = append(t.levels, level)
		if len(level) <= 1 {
			return t
		}
		level = make([]float64, (len(level)+fan-1)/fan)
	}
}

// scores by candidate, to be read; who writes to them calls rebuild.
func (t *tree) scores() []float64 { return t.levels[0] }

// set changes one score, and above it what that changes.
func (t *tree) set(i int, score float64) {
	if was := t.levels[0][i]; was == unfit && score != unfit {
		t.fit++
	} else if was != unfit && score == unfit {
		t.fit--
	}
	for l, level := range t.levels {
		was := level[i]
		if was == score {
			return
		}
		level[i] = score
		if l+1 == len(t.levels) {
			return
		}
		i /= fan
		above := t.levels[l+1][i]
		switch {
		case score >= above:
		case was == above: // it was the best
			score = bestOf(level, i)
		default:
			return
		}
	}
}

// bestOf is the best of the i-th fan of a level.
func bestOf(level []float64, i int) float64 {
	most := unfit
	for _, score := range level[i*fan : min(len(level), (i+1)*fan)] {
		most = max(most, score)
	}
	return most
}

// rebuild makes all levels agree with the scores.
func (t *tree) rebuild() {
	t.fit = 0
	for _, score := range t.levels[0] {
		if score != unfit {
			t.fit++
		}
	}
	for l, level := range t.levels[1:] {
		for i := range level {
			level[i] = bestOf(t.levels[l], i)
		}
	}
}

// best is the candidate with the best score, of equal ones the first from the given one
// on, all in a circle.
func (t *tree) best(from int) (i int, ok bool) {
	top := t.levels[len(t.levels)-1]
	if len(top) == 0 || top[0] == unfit {
		return 0, false
	}
	if i, ok = t.first(top[0], from); !ok {
		i, ok = t.first(top[0], 0)
	}
	return i, ok
}

// first is the first candidate from i on with the best score of all.
func (t *tree) first(most float64, i int) (at int, ok bool) {
	for l, level := range t.levels { // up: the rest of a fan, then of the fan above
		end := min(len(level), (i/fan+1)*fan)
		for ; i < end; i++ {
			if level[i] == most {
				return t.under(l, i, most), true
			}
		}
		i = (i + fan - 1) / fan
	}
	return 0, false
}

// under is the first candidate with the best score of those that the i-th score of a
// level stands for.
func (t *tree) under(l, i int, most float64) int {
	for ; l > 0; l-- {
		for i *= fan; t.levels[l-1][i] != most; i++ {
		}
	}
	return i
}
