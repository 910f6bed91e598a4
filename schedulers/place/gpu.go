package place

import (
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// devices picks the devices of c that a task of r gets, as indexes into c.GPUs appended
// to into: of the allowed models, the fullest GPU that still has the share free, the
// first of equals; whole GPUs are free ones. nil if there are too few.
func devices(r *Request, c *Candidate, into []int) []int {
	if r.GPUs == 1 {
		best := -1
		for i := range c.GPUs {
			g := &c.GPUs[i]
			if g.Free >= r.Share && (best < 0 || g.Free < c.GPUs[best].Free) && r.allows(g.Model) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		return append(into, best)
	}
	for i := range c.GPUs {
		if len(into) == r.GPUs {
			break
		}
		if c.GPUs[i].Free >= r.Share && r.allows(c.GPUs[i].Model) {
			into = append(into, i)
		}
	}
	if len(into) < r.GPUs {
		return nil
	}
	return into
}

// shares are the devices as a claim carries them.
func shares(r *Request, c *Candidate) []*ohmv1.DeviceShare {
	var gpus []*ohmv1.DeviceShare
	for _, i := range devices(r, c, make([]int, 0, r.GPUs)) {
		gpus = append(gpus, &ohmv1.DeviceShare{Id: c.GPUs[i].ID, Milli: r.Share})
	}
	return gpus
}
