package place

import (
	"encoding/binary"
	"math"
)

// patterns remembers what a placement mends or breaks of a node's GPUs. That depends on the
// demand, on what the task asks of GPUs, and of the node on what is free of each of them alone: there
// are a few hundred such patterns, whatever the number of nodes and of classes.
type patterns struct {
	of    map[string]*pattern
	asked map[asked]int32 // numbers, from 1
	key   []byte          // memory
}

// Bounds of what is remembered. A pattern that is forgotten lives on with the candidates that
// have it.
const (
	maxPatterns = 1 << 13
	maxAsked    = 1 << 10
)

// pattern is what is free of the GPUs of some candidates.
type pattern struct {
	free  int64    // of all together, in thousandths
	epoch uint64   // of the demand that is known
	known []mended // by the number of what is asked; NaN: not known
}

// asked is all of a request that a choice of devices looks at.
type asked struct {
	gpus               int
	share              int32
	memory, shareBytes int64
	models             string
	sameModel          bool
}

func newPatterns() *patterns {
	return &patterns{of: map[string]*pattern{}, asked: map[asked]int32{}}
}

// number is the number of what a request asks of GPUs; 0: it is not remembered.
func (p *patterns) number(r *Request) int32 {
	if r.GPUs == 0 {
		return 0
	}
	key := asked{r.GPUs, r.Share, r.Memory, r.ShareBytes, joinModels(r.Models), r.SameModel}
	n, known := p.asked[key]
	if !known && len(p.asked) < maxAsked {
		n = int32(len(p.asked) + 1)
		p.asked[key] = n
	}
	return n
}

// mends is s.mends of a candidate that has the pattern, remembered.
func (is *pattern) mends(s *LeastStranded, r *Request, c *Candidate) mended {
	if r.asked == 0 {
		return s.mends(r, c)
	}
	if is.epoch != s.demand.epoch {
		is.epoch, is.known = s.demand.epoch, is.known[:0]
	}
	for len(is.known) <= int(r.asked) {
		is.known = append(is.known, mended{gain: math.NaN()})
	}
	m := &is.known[r.asked]
	if math.IsNaN(m.gain) {
		*m = s.mends(r, c)
	}
	return *m
}

// find is the pattern of a candidate: the devices in their order, as a choice among equal ones
// takes the first.
func (p *patterns) find(c *Candidate) *pattern {
	p.key = p.key[:0]
	for i := range c.GPUs {
		p.key = binary.AppendVarint(p.key, int64(c.GPUs[i].Free))
		p.key = binary.AppendUvarint(p.key, uint64(c.GPUs[i].model))
		p.key = binary.AppendVarint(p.key, c.GPUs[i].Memory)
	}
	is := p.of[string(p.key)]
	if is == nil {
		if len(p.of) >= maxPatterns {
			clear(p.of)
		}
		is = &pattern{free: c.freeGPU()}
		p.of[string(p.key)] = is
	}
	return is
}
