package place

import (
	"slices"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// devices picks the devices of c that a task of r gets, as indexes into c.GPUs appended
// to into: of those that will do, the fullest GPU that still has the share free; whole GPUs are
// free ones, of one model those of the model with the fewest that are enough. Which of equal ones
// is first, the request says. nil if there are too few.
func devices(r *Request, c *Candidate, into []int) []int {
	first, n := r.firstOf(c), len(c.GPUs)
	if r.GPUs == 1 {
		best := -1
		for k := range n {
			i := (first + k) % n
			g := &c.GPUs[i]
			if (best < 0 || g.Free < c.GPUs[best].Free) && r.takes(g) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		return append(into, best)
	}
	model := -1
	if r.SameModel {
		if model = oneModel(r, c); model < 0 {
			return nil
		}
	}
	for k := 0; k < n && len(into) < r.GPUs; k++ {
		i := (first + k) % n
		if r.takes(&c.GPUs[i]) && (model < 0 || c.GPUs[i].model == model) {
			into = append(into, i)
		}
	}
	if len(into) < r.GPUs {
		return nil
	}
	slices.Sort(into)
	return into
}

// firstOf is at which device of c a choice among equal ones begins. Where all are alike it is
// another one for each instance, so that two that choose one node at the same time take different
// devices of it; tasks of several begin at multiples of their number, so that they stay side by side.
func (r *Request) firstOf(c *Candidate) int {
	if r.turn == 0 || len(c.GPUs) == 0 || c.mixed {
		return 0
	}
	first := r.turn % len(c.GPUs)
	return first - first%max(1, r.GPUs)
}

// oneModel is the number of the model with the fewest devices that are enough; below 0
// where none has enough.
func oneModel(r *Request, c *Candidate) int {
	best, fewest := -1, 0
	for i := range c.GPUs {
		if n := ofModel(r, c, c.GPUs[i].model); n >= r.GPUs && (best < 0 || n < fewest) {
			best, fewest = c.GPUs[i].model, n
		}
	}
	return best
}

// ofModel counts the devices of a model that would do now.
func ofModel(r *Request, c *Candidate, model int) (n int) {
	for i := range c.GPUs {
		if c.GPUs[i].model == model && r.takes(&c.GPUs[i]) {
			n++
		}
	}
	return n
}

// freeDevices counts those of c that would do together now.
func freeDevices(r *Request, c *Candidate) (most int) {
	for i := range c.GPUs {
		switch {
		case r.SameModel:
			most = max(most, ofModel(r, c, c.GPUs[i].model))
		case r.takes(&c.GPUs[i]):
			most++
		}
	}
	return most
}

// shares are the devices as a claim carries them.
func shares(r *Request, c *Candidate) []*ohmv1.DeviceShare {
	var gpus []*ohmv1.DeviceShare
	for _, i := range devices(r, c, make([]int, 0, r.GPUs)) {
		gpus = append(gpus, &ohmv1.DeviceShare{Id: c.GPUs[i].ID, Milli: r.on(&c.GPUs[i])})
	}
	return gpus
}

// typical makes Share of a share by memory what it is on the first device that will do:
// the demand is weighed by it, and nothing else.
func (t *Table) typical(r *Request) {
	if r.ShareBytes == 0 {
		return
	}
	for i := range t.candidates {
		for k := range t.candidates[i].GPUs {
			if milli := r.on(&t.candidates[i].GPUs[k]); milli <= wholeGPU {
				r.Share = milli
				return
			}
		}
	}
}
