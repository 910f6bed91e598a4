package packing

import (
	"slices"
	"strings"

	"github.com/ohmcell/ohm/cmd/ohm/openb"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/place"
)

// fgd is fragmentation gradient descent (Weng et al., USENIX ATC 2023, section 3): a task goes
// where the expected fragmentation grows least. The fragmentation of a node is what a task
// drawn from the workload could not use of its free GPU: all of it if the node has not the CPU, the
// memory, the model or the GPUs for the task, or the task asks for no GPU; else the GPUs of
// which less is free than it asks of one. The workload is known beforehand, as in the paper.
// Within the node the device is the product's own choice, the fullest that fits. Equal nodes: the
// first by name.
type fgd struct{ shapes []popular }

// popular is a way to ask, and how much of the workload asks so.
type popular struct {
	cpu, memory int64
	gpus, share int32
	models      []string
	part        float64
}

func newFGD(tasks []openb.Task) *fgd {
	type key struct {
		cpu, memory int64
		gpus, share int32
		models      string
	}
	counts := map[key]int{}
	var order []key
	for _, t := range tasks {
		g := t.Job.GetGroups()[0]
		k := key{g.GetResources().GetCpuMilli(), g.GetResources().GetMemoryBytes(), g.GetGpus().GetCount(), share(g.GetGpus()), strings.Join(g.GetGpus().GetModels(), "|")}
		if counts[k]++; counts[k] == 1 {
			order = append(order, k)
		}
	}
	f := &fgd{}
	for _, k := range order {
		p := popular{cpu: k.cpu, memory: k.memory, gpus: k.gpus, share: k.share, part: float64(counts[k]) / float64(len(tasks))}
		if k.models != "" {
			p.models = strings.Split(k.models, "|")
		}
		f.shapes = append(f.shapes, p)
	}
	return f
}

func share(g *ohmv1.GPURequest) int32 {
	if g.GetShareMilli() > 0 {
		return g.GetShareMilli()
	}
	return 1000
}

func (*fgd) Name() string { return "FGD" }

// Score is the decrease of the node's expected fragmentation, in thousandths of a GPU.
func (f *fgd) Score(r *place.Request, c *place.Candidate) float64 {
	if len(c.GPUs) == 0 {
		return 0
	}
	var few, less [8]int32
	before := few[:0]
	for i := range c.GPUs {
		before = append(before, max(0, c.GPUs[i].Free))
	}
	after := append(less[:0], before...)
	taken := 0
	for taken < r.GPUs { // as the product picks: the fullest one that fits
		best := -1
		for i, free := range after {
			if free >= r.Share && (best < 0 || free < after[best]) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		after[best] -= r.Share
		taken++
	}
	return f.fragmentation(c, c.FreeCPU, c.FreeMemory, before) - f.fragmentation(c, c.FreeCPU-r.CPUMilli, c.FreeMemory-r.MemoryBytes, after)
}

func (f *fgd) fragmentation(c *place.Candidate, cpu, memory int64, free []int32) float64 {
	sum := 0.0
	all := int32(0)
	for _, milli := range free {
		all += milli
	}
	for i := range f.shapes {
		s := &f.shapes[i]
		lost := all
		if s.gpus > 0 && s.cpu <= cpu && s.memory <= memory && (len(s.models) == 0 || slices.Contains(s.models, c.GPUs[0].Model)) {
			small, enough := int32(0), int32(0)
			for _, milli := range free {
				if milli >= s.share {
					enough++
				} else {
					small += milli
				}
			}
			if enough >= s.gpus {
				lost = small
			}
		}
		sum += s.part * float64(lost)
	}
	return sum
}
