package replay

import (
	"math"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Report is what came of a replay, counted from the store.
type Report struct {
	Nodes               int       `json:"nodes"`
	Submitted           int       `json:"submitted"`
	Placed              int       `json:"placed"`
	Refused             int       `json:"refused"`
	FirstRefused        int       `json:"first_refused"` // line of the record, from 1; 0: none
	GPUAllocatedPercent float64   `json:"gpu_allocated_percent"`
	CPUAllocatedPercent float64   `json:"cpu_allocated_percent"`
	Conflicts           Conflicts `json:"conflicts"`
	ConflictsPerCommit  float64   `json:"conflicts_per_commit"` // claims refused because the cell moved on, by claims committed
	PlacementsPerSecond float64   `json:"placements_per_second"`
	Seconds             float64   `json:"seconds"`
	Schedulers          int       `json:"schedulers"`
	Violations          int       `json:"violations"`
	ModelViolations     int       `json:"model_violations"` // placements on a GPU model that was not allowed
}

// Conflicts of the journal. A pair is written winner>loser.
type Conflicts struct {
	Total    int            `json:"total"`
	ByReason map[string]int `json:"by_reason"`
	ByPair   map[string]int `json:"by_pair"`
}

func count(s *cellstate.Snapshot, jobs []*ohmv1.JobSpec, took time.Duration, schedulers, violations int) *Report {
	r := &Report{
		Submitted: len(jobs), Schedulers: schedulers, Violations: violations, Seconds: round(took.Seconds(), 1),
		Conflicts: Conflicts{ByReason: map[string]int{}, ByPair: map[string]int{}},
	}
	var gpus, gpusUsed, cpu, cpuUsed int64
	models := map[string]string{} // of a GPU, by node/id
	for n := range s.Nodes() {
		r.Nodes++
		gpus += 1000 * int64(len(n.Facts.GetGpus()))
		cpu += n.Facts.GetCapacity().GetCpuMilli()
		cpuUsed += n.Used().CPUMilli
		for _, milli := range n.Used().GPUs {
			gpusUsed += int64(milli)
		}
		for _, d := range n.Facts.GetGpus() {
			models[string(n.Name)+"/"+d.GetId()] = d.GetModel()
		}
	}
	for i, spec := range jobs {
		job := s.Job(cellstate.JobNameOf(spec))
		if job == nil || len(job.Tasks) == 0 || job.Tasks[0].Placement == nil {
			r.Refused++
			if r.FirstRefused == 0 {
				r.FirstRefused = i + 1
			}
			continue
		}
		r.Placed++
		if !allowed(job.Tasks[0].Placement, spec, models) {
			r.ModelViolations++
		}
	}
	for c := range s.Conflicts("") {
		r.Conflicts.Total++
		r.Conflicts.ByReason[c.GetReason()]++
		if w := c.GetWinner(); w != nil {
			r.Conflicts.ByPair[w.GetScheduler()+">"+c.GetScheduler()]++
		}
	}
	r.GPUAllocatedPercent = percent(gpusUsed, gpus)
	r.CPUAllocatedPercent = percent(cpuUsed, cpu)
	if r.Placed > 0 {
		r.ConflictsPerCommit = round(float64(r.Conflicts.Total)/float64(r.Placed), 4)
		r.PlacementsPerSecond = round(float64(r.Placed)/took.Seconds(), 1)
	}
	return r
}

// allowed says whether a placement's GPUs are of a model that its job takes.
func allowed(p *cellstate.Placement, spec *ohmv1.JobSpec, models map[string]string) bool {
	want := spec.GetGroups()[0].GetGpus().GetModels()
	for _, g := range p.GetGpus() {
		ok := len(want) == 0
		for _, m := range want {
			ok = ok || models[p.GetNode()+"/"+g.GetId()] == m
		}
		if !ok {
			return false
		}
	}
	return true
}

func percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return round(100*float64(part)/float64(whole), 2)
}

func round(x float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(x*p) / p
}
