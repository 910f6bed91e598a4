package place

import (
	"testing"

	"github.com/ohmcell/ohm/pkg/resource"
)

// tasks is a census of tasks that ask for shapes, with cpu for each thousandth of a GPU.
func tasks(cpu int64, counts map[shape]int) demand {
	c := census{shapes: map[shape]int{}}
	for s, n := range counts {
		c.count(seen{shape: s, cpu: cpu * s.gpu()}, n)
	}
	return c.demand([]int{3, 1}, map[string]int{"T4": 0, "V100": 1})
}

func TestBrokenAndStarved(t *testing.T) {
	whole, half, pair := shape{gpus: 1, share: 1000}, shape{gpus: 1, share: 500}, shape{gpus: 2, share: 1000}
	v100 := shape{gpus: 1, share: 1000, models: "V100"}
	for _, c := range []struct {
		name   string
		demand demand
		free   string
		cpu    int64
		broken float64
		starve float64
	}{
		{"nothing seen", tasks(0, nil), "T4:1000", 0, 0, 0},
		{"all of use", tasks(8, map[shape]int{whole: 1}), "T4:1000 T4:1000", 20000, 0, 0},
		{"a piece too small for all", tasks(8, map[shape]int{whole: 1}), "T4:999", 20000, 999, 0},
		{"for half of the tasks", tasks(8, map[shape]int{whole: 4, half: 4}), "T4:500", 20000, 250, 0},
		{"what the shape leaves over", tasks(8, map[shape]int{half: 1}), "T4:700", 20000, 200, 0},
		{"an odd device for pairs", tasks(8, map[shape]int{pair: 1}), "T4:1000 T4:1000 T4:1000", 30000, 1000, 0},
		{"the wrong model", tasks(8, map[shape]int{v100: 1}), "T4:1000 T4:1000", 20000, 2000, 0},
		{"no CPU beside the GPU", tasks(8, map[shape]int{whole: 1}), "T4:1000 T4:1000", 8000, 0, 1000},
		{"none at all", tasks(8, map[shape]int{whole: 1}), "T4:1000 T4:1000", -1, 0, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &LeastStranded{&c.demand, newPatterns()}
			node := &Candidate{GPUs: gpus(c.free), FreeCPU: c.cpu}
			if got := s.broken(node, nil, 0); got != c.broken {
				t.Errorf("broken: %v; want %v", got, c.broken)
			}
			if got := s.starved(node.freeGPU(), c.cpu, 0); got != c.starve {
				t.Errorf("starved: %v; want %v", got, c.starve)
			}
		})
	}
}

func TestScores(t *testing.T) {
	node := func(free string, cpu, capacity int64, live int) *Candidate {
		return &Candidate{GPUs: gpus(free), FreeCPU: cpu, live: live, ofCPU: resource.Part(1, capacity)}
	}
	eight := "T4:1000 T4:1000 T4:1000 T4:1000 T4:1000 T4:1000 T4:1000 T4:1000"
	v100 := node("V100:1000", 50000, 50000, 1)
	v100.GPUs[0].model = 1
	cpu, gpu := &Request{CPUMilli: 4000, Share: 1000}, &Request{CPUMilli: 4000, GPUs: 1, Share: 500}
	d := tasks(4, map[shape]int{{gpus: 1, share: 500}: 8, {gpus: 1, share: 1000}: 4, {gpus: 1, share: 1000, models: "V100"}: 1})
	for _, c := range []struct {
		name          string
		request       *Request
		better, worse *Candidate
	}{
		{"a half-used GPU before a whole one", gpu, node("T4:500 T4:1000", 50000, 50000, 1), node("T4:1000 T4:1000", 50000, 50000, 1)},
		{"an open node before an empty one of many GPUs", cpu, node(eight, 50000, 50000, 1), node(eight, 50000, 50000, 0)},
		{"no GPUs before free ones", cpu, node("", 50000, 50000, 0), node("T4:1000", 50000, 50000, 1)},
		{"full GPUs before free ones", cpu, node("T4:0", 50000, 50000, 1), node("T4:1000", 50000, 50000, 1)},
		{"CPU to spare before CPU that the GPUs need", cpu, node("T4:1000 T4:1000", 20000, 50000, 1), node("T4:1000 T4:1000", 9000, 50000, 1)},
		{"the fuller of equals", cpu, node("", 5000, 50000, 1), node("", 20000, 50000, 1)},
		{"a common model before a scarce one", gpu, node("T4:1000", 50000, 50000, 1), v100},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &LeastStranded{&d, newPatterns()}
			if better, worse := s.Score(c.request, c.better), s.Score(c.request, c.worse); better <= worse {
				t.Errorf("%v is not above %v", better, worse)
			}
		})
	}
}
