package place

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
)

// shape is a way to ask for GPUs.
type shape struct {
	gpus, share int32
	models      string // joined with |; empty: any
}

func (s shape) compare(o shape) int {
	return cmp.Or(cmp.Compare(s.gpus, o.gpus), cmp.Compare(s.share, o.share), strings.Compare(s.models, o.models))
}

// gpu is what it asks for in all, in thousandths.
func (s shape) gpu() int64 { return int64(s.gpus) * int64(s.share) }

// seen is one task that uses GPUs, as others learn from it.
type seen struct {
	shape
	cpu, memory int64
}

func seenRequest(r *Request) seen {
	return seen{shape{int32(r.GPUs), r.Share, joinModels(r.Models)}, r.CPUMilli, r.MemoryBytes}
}

// seenPlacement reads a live placement. Its models are those of its job's present
// version: a change of the job's record makes new rows for the nodes of its tasks, so
// that a table which follows the rows sees it.
func seenPlacement(s *cellstate.Snapshot, p *cellstate.Placement) seen {
	gpus, res := p.GetGpus(), p.GetResources()
	is := seen{shape{gpus: int32(len(gpus)), share: gpus[0].GetMilli()}, res.GetCpuMilli(), res.GetMemoryBytes()}
	if job := s.Job(p.Slot.JobName()); job != nil {
		is.models = joinModels(job.Group(p.Slot.Group).GetGpus().GetModels())
	}
	return is
}

func joinModels(models []string) string {
	if len(models) < 2 {
		return strings.Join(models, "|")
	}
	models = slices.Clone(models)
	slices.Sort(models)
	return strings.Join(slices.Compact(models), "|")
}

// census counts the tasks that use GPUs: those that live in the snapshot and those
// that the present work asks for.
type census struct {
	shapes           map[shape]int
	cpu, memory, gpu int64 // of all of them
}

func (c *census) count(s seen, times int) {
	if c.shapes[s.shape] += times; c.shapes[s.shape] == 0 {
		delete(c.shapes, s.shape)
	}
	c.cpu += s.cpu * int64(times)
	c.memory += s.memory * int64(times)
	c.gpu += s.gpu() * int64(times)
}

// demand is what the census says about the tasks to come. All its numbers are rounded
// to steps, so that they change ever more rarely as the census grows, and with them
// all remembered scores.
type demand struct {
	epoch           uint64 // another one for each other demand; from 1
	shapes          []weighed
	byCPU, byMemory float64   // thousandths of a GPU that go with a thousandth of a core and with a byte, in the mean; 0: none is asked for
	prices          []float64 // by model: of a thousandth of a GPU, in thousandths
}

type weighed struct {
	shape
	weight  float64 // of all: 1
	allowed []bool  // by model; nil: any
}

// maxShapes bounds the shapes of a demand: those that ask for most.
const maxShapes = 64

// scarcePrice is what a GPU costs, in thousandths, of a model that tasks ask for by
// name exactly as often as it is found. Found by trial: on the openb list with model
// constraints, 0 leaves 91.9% of the GPUs allocated, 1,000 leaves 92.6, 2,000 to 6,000
// leave 95.2 to 95.5.
const scarcePrice = 4000

// demand weighs the census. supply counts the devices of each model, models says which
// number is whose.
func (c *census) demand(supply []int, models map[string]int) demand {
	shapes := slices.SortedFunc(maps.Keys(c.shapes), shape.compare)
	if len(shapes) > maxShapes {
		slices.SortStableFunc(shapes, func(a, b shape) int {
			return cmp.Compare(int64(c.shapes[b])*b.gpu(), int64(c.shapes[a])*a.gpu())
		})
		shapes = shapes[:maxShapes]
		slices.SortFunc(shapes, shape.compare)
	}
	var d demand
	total := 0.0
	for _, s := range shapes {
		w := weighed{shape: s, weight: round(float64(c.shapes[s]), 1)}
		if s.models != "" {
			w.allowed = make([]bool, len(supply))
			for name := range strings.SplitSeq(s.models, "|") {
				if m, known := models[name]; known {
					w.allowed[m] = true
				}
			}
		}
		total += w.weight
		d.shapes = append(d.shapes, w)
	}
	for i := range d.shapes {
		d.shapes[i].weight /= total
	}
	if c.gpu > 0 {
		d.byCPU, d.byMemory = round(resource.Part(c.gpu, c.cpu), 8), round(resource.Part(c.gpu, c.memory), 8)
	}
	d.prices = prices(d.shapes, supply)
	return d
}

// round rounds to the nearest power of the n-th root of two; 0 stays.
func round(x, n float64) float64 {
	if x <= 0 {
		return 0
	}
	return math.Exp2(math.Round(n*math.Log2(x)) / n)
}

// prices of the models: for each set of models that tasks are bound to, the part of the
// demand that is bound to it over the part of the devices that it holds.
func prices(shapes []weighed, supply []int) []float64 {
	asked, devices := 0.0, 0
	for _, s := range shapes {
		asked += s.weight * float64(s.gpu())
	}
	for _, n := range supply {
		devices += n
	}
	of := make([]float64, len(supply))
	for _, s := range shapes {
		have := 0
		for m, ok := range s.allowed {
			if ok {
				have += supply[m]
			}
		}
		if have == 0 {
			continue
		}
		scarcity := (s.weight * float64(s.gpu()) / asked) / (float64(have) / float64(devices))
		for m, ok := range s.allowed {
			if ok {
				of[m] += scarcePrice * scarcity / wholeGPU
			}
		}
	}
	return of
}

// same says whether two demands lead to the same scores.
func (d demand) same(o demand) bool {
	return d.byCPU == o.byCPU && d.byMemory == o.byMemory && slices.Equal(d.prices, o.prices) &&
		slices.EqualFunc(d.shapes, o.shapes, func(a, b weighed) bool {
			return a.shape == b.shape && a.weight == b.weight && slices.Equal(a.allowed, b.allowed)
		})
}
