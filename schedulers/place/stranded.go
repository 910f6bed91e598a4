package place

// LeastStranded prefers the node on which a placement leaves the least GPU that nobody
// could use, judged by the tasks that the cell has seen so far.
//
// With f the free GPU of a node, in thousandths, c and m its free CPU and memory:
//
//	stranded(node) = Σ over shapes s of weight(s) × (f − what copies of s alone could take of f)
//	               + f − min(f, c ÷ C, m ÷ M)
//	score          = stranded(before) − stranded(after) − prices − fit
//
// A shape is a way to ask for GPUs (number, share, models) and weighs as much as it is
// frequent; C and M are the CPU and memory that go with a thousandth of a GPU in the
// mean of all tasks seen. The first part is GPU of which the pieces are too small or of
// the wrong model, the second GPU beside which the CPU or the memory has run out. It is
// negative cost, a gain, to put a task with little CPU where CPU is short.
//
// The prices: opening an empty node of many GPUs; the chosen devices' model, where other
// tasks need it by name; a task without GPUs on a node that still has some. fit, worth
// a few thousandths, is the part of CPU and memory that stays free: best fit among equals.
//
// The first sum is fragmentation as in "Beware of Fragmentation: Scheduling GPU-Sharing
// Workloads with Fragmentation Gradient Descent" (Weng et al., USENIX ATC 2023, section
// 4), without its test of each shape's CPU and memory; the second part, which counts how
// many GPUs they can serve and not only whether they serve one, takes the place of that
// test. openb_test.go measures both on the paper's own cell.
type LeastStranded struct{ demand *demand }

// Prices in thousandths of a GPU.
const (
	openPrice = 200 // to open an empty node of manyGPUs or more
	manyGPUs  = 8
	idlePrice = 5 // for a task without GPUs on a node with free ones
	fitPrice  = 1 // for a whole node's CPU or memory left free
)

func (*LeastStranded) Name() string { return "least stranded" }

// Score is in thousandths of a GPU.
func (s *LeastStranded) Score(r *Request, c *Candidate) float64 {
	cpu, memory := c.FreeCPU-r.CPUMilli, c.FreeMemory-r.MemoryBytes
	capacity := c.Node.Facts.GetCapacity()
	score := -fitPrice * (part(cpu, capacity.GetCpuMilli()) + part(memory, capacity.GetMemoryBytes()))
	if len(c.GPUs) == 0 {
		return score
	}
	if len(c.GPUs) >= manyGPUs && c.empty() {
		score -= openPrice
	}
	var before, after free
	before.read(c, nil, 0)
	if r.GPUs == 0 {
		if before.all > 0 {
			score -= idlePrice
		}
		return score + s.starved(before.all, c.FreeCPU, c.FreeMemory) - s.starved(before.all, cpu, memory)
	}
	var few [8]int
	picked := devices(r, c, few[:0])
	for _, i := range picked {
		score -= s.demand.prices[c.GPUs[i].model] * float64(r.Share)
	}
	after.read(c, picked, r.Share)
	return score +
		s.broken(&before) + s.starved(before.all, c.FreeCPU, c.FreeMemory) -
		s.broken(&after) - s.starved(after.all, cpu, memory)
}

func part(free, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(free) / float64(of)
}

// starved is the GPU beside which CPU or memory has run out.
func (s *LeastStranded) starved(gpu, cpu, memory int64) float64 {
	served := float64(gpu)
	if s.demand.cpu > 0 {
		served = min(served, float64(cpu)/s.demand.cpu)
	}
	if s.demand.memory > 0 {
		served = min(served, float64(memory)/s.demand.memory)
	}
	return float64(gpu) - max(0, served)
}

// broken is the GPU of which the pieces suit too few shapes.
func (s *LeastStranded) broken(f *free) float64 {
	if f.all == 0 {
		return 0
	}
	lost := 0.0
	for i := range s.demand.shapes {
		w := &s.demand.shapes[i]
		lost += w.weight * float64(f.all-f.takes(w)*w.gpu())
	}
	return lost
}

// free is what is free of a candidate's GPUs.
type free struct {
	all    int64    // thousandths
	pieces []piece  // by model and amount, ascending by first sight
	few    [8]piece // memory for the usual case
}

// piece is a number of equal devices.
type piece struct{ milli, model, devices int32 }

// read counts c's GPUs less a share of each of the picked ones.
func (f *free) read(c *Candidate, picked []int, share int32) {
	f.all, f.pieces = 0, f.few[:0]
	for i := range c.GPUs {
		milli := c.GPUs[i].Free
		for _, p := range picked {
			if p == i {
				milli -= share
			}
		}
		if milli > 0 {
			f.add(milli, int32(c.GPUs[i].model))
		}
	}
}

func (f *free) add(milli, model int32) {
	f.all += int64(milli)
	for i := range f.pieces {
		if p := &f.pieces[i]; p.milli == milli && p.model == model {
			p.devices++
			return
		}
	}
	f.pieces = append(f.pieces, piece{milli, model, 1})
}

// takes is how many copies of a shape the GPUs could take.
func (f *free) takes(w *weighed) int64 {
	n := int32(0)
	for _, p := range f.pieces {
		if p.milli >= w.share && (w.allowed == nil || w.allowed[p.model]) {
			n += p.devices * (p.milli / w.share)
		}
	}
	if w.gpus > 1 { // each copy wants devices of its own: whole ones
		n /= w.gpus
	}
	return int64(n)
}
