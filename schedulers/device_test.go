package schedulers_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

// onGPUs is a job with a group of one task for each number of GPUs.
func onGPUs(name, kind string, gpus ...int) celltest.Job {
	j := celltest.Job{Name: name, Kind: kind}
	for i, n := range gpus {
		j.Groups = append(j.Groups, &ohmv1.Group{Name: fmt.Sprintf("g%d", i), Count: 1, Command: []string{"true"},
			Resources: &ohmv1.Resources{CpuMilli: 100}, Gpus: &ohmv1.GPURequest{Count: int32(n)}})
	}
	return j
}

// owners are how many live placements have each of the node's devices.
func owners(s *cellstate.Snapshot, node cellstate.NodeName) map[string]int {
	of := map[string]int{}
	for _, p := range s.Node(node).Placements() {
		for _, g := range p.GetGpus() {
			of[g.GetId()]++
		}
	}
	return of
}

// reasons are all reasons of a job's last word.
func reasons(s *cellstate.Snapshot, job string) (text string) {
	for _, g := range schedtest.Word(s, job).GetGroups() {
		for _, r := range g.GetReasons() {
			text += r.GetReason() + " " + r.GetDimension() + ": " + r.GetDetail() + "\n"
		}
	}
	return text
}

// Field case 43: the devices of a node are counted across the tasks of a job, by every policy:
// what fits together is placed on devices that nobody else has, and what does not says so.
func TestCase43DevicesAcrossTasks(t *testing.T) {
	for _, gpus := range [][]int{{2, 2}, {1, 3}, {1, 1, 2}, {2, 3}} {
		for _, p := range []struct {
			kind   string
			policy schedulers.Scheduler
			placed int // of 2+3
		}{{"batch", batch.New(), 1}, {"service", service.New(), 1}, {"ml", ml.New(), 0}, {"batch", schedtest.FirstFit{}, 1}} {
			t.Run(fmt.Sprintf("%v/%T", gpus, p.policy), func(t *testing.T) {
				bubble(t, func(t *testing.T, cell *schedtest.Cell) {
					cell.Up(celltest.Node{Name: "n1", CPU: 4000, GPUs: 4, Model: "T4"})
					cell.Run(p.kind, "a", p.policy)
					cell.Submit(onGPUs("j", p.kind, gpus...))
					if gpus[len(gpus)-1] < 3 || gpus[0] == 1 {
						s := cell.Until("all are placed", placed("j", len(gpus)))
						if of := owners(s, "n1"); len(of) != 4 || slices.ContainsFunc(slices.Collect(values(of)), func(n int) bool { return n != 1 }) {
							t.Errorf("the devices have so many owners: %v", of)
						}
						return
					}
					s := cell.Until("one waits", func(s *cellstate.Snapshot) bool { return waits("j")(s) && schedtest.Placed(s, "j") == p.placed })
					if _, own := p.policy.(schedtest.FirstFit); !own && !strings.Contains(reasons(s, "j"), "it would be 5 of 4") {
						t.Errorf("it waits because %s; want that it would be 5 of 4", reasons(s, "j"))
					}
				})
			})
		}
	}
}

func values(m map[string]int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// Field case 44: on a node with two models a task may have devices of both, unless it asks
// for one model; then it is told which devices were seen and why each was not used.
func TestCase44MixedModels(t *testing.T) {
	a, b := &ohmv1.Device{Id: "x", Model: "A", MemoryBytes: 16 << 30}, &ohmv1.Device{Id: "y", Model: "B", MemoryBytes: 80 << 30}
	bad := &ohmv1.Device{Id: "z", Model: "B", MemoryBytes: 80 << 30, Health: ohmv1.DeviceHealth_DEVICE_HEALTH_BAD, Why: "code 48"}
	for _, c := range []struct {
		name    string
		devices []*ohmv1.Device
		want    *ohmv1.GPURequest
		why     string // empty: it is placed
	}{
		{"two of any model", []*ohmv1.Device{a, b}, &ohmv1.GPURequest{Count: 2}, ""},
		{"two of one model", []*ohmv1.Device{a, b}, &ohmv1.GPURequest{Count: 2, SameModel: true}, "most free: 1 of 2 whole GPUs of one model on node n1: 1×A, 1×B"},
		{"two of one model, of which one is bad", []*ohmv1.Device{a, b, bad}, &ohmv1.GPURequest{Count: 2, SameModel: true},
			"1 of 2 whole GPUs of one model on node n1: 1×A, 1×B, 1×B not usable; 1 of 3 not usable, such as z: Bad: code 48"},
		{"two of a model", []*ohmv1.Device{a, b}, &ohmv1.GPURequest{Count: 2, Models: []string{"B"}}, "1 of 2 whole GPUs (B) on node n1: 1×A of another model, 1×B"},
		{"one with memory", []*ohmv1.Device{a, b}, &ohmv1.GPURequest{Count: 1, MemoryBytes: 40 << 30}, ""},
		{"two with memory", []*ohmv1.Device{a, b}, &ohmv1.GPURequest{Count: 2, MemoryBytes: 40 << 30}, "1 of 2 whole GPUs with 40Gi of memory on node n1: 1×A with 16Gi, 1×B"},
	} {
		for _, policy := range []schedulers.Scheduler{batch.New(), schedtest.FirstFit{}} {
			t.Run(fmt.Sprintf("%s/%T", c.name, policy), func(t *testing.T) {
				bubble(t, func(t *testing.T, cell *schedtest.Cell) {
					cell.Up(celltest.Node{Name: "n1", CPU: 4000, Devices: c.devices})
					cell.Run("batch", "a", policy)
					j := onGPUs("j", "batch", 1)
					j.Groups[0].Gpus = c.want
					cell.Submit(j)
					if c.why == "" {
						s := cell.Until("it is placed", placed("j", 1))
						if p := s.Node("n1").Placements()[0]; len(p.GetGpus()) != int(c.want.GetCount()) || c.want.GetMemoryBytes() > 0 && p.GetGpus()[0].GetId() != "y" {
							t.Errorf("it has %v", p.GetGpus())
						}
						return
					}
					s := cell.Until("it waits", waits("j"))
					if _, own := policy.(schedtest.FirstFit); !own && !strings.Contains(reasons(s, "j"), c.why) {
						t.Errorf("it waits because %s; want %q", reasons(s, "j"), c.why)
					}
				})
			})
		}
	}
}

// Field case 49: four tasks of a quarter of the node's only GPU run, the fifth waits, and one that
// asks for the whole GPU waits until all four have ended. A quarter is said in thousandths
// or as so much of the device's memory.
func TestCase49SharesOfOneGPU(t *testing.T) {
	for name, quarter := range map[string]*ohmv1.GPURequest{
		"thousandths": {Count: 1, ShareMilli: 250},
		"memory":      {Count: 1, ShareBytes: 4 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1", CPU: 8000, Devices: []*ohmv1.Device{{Id: "gpu-0", Model: "T4", MemoryBytes: 16 << 30}}})
				cell.Run("batch", "a", batch.New())
				shares := onGPUs("shares", "batch", 1)
				shares.Groups[0].Gpus, shares.Groups[0].Count = quarter, 5
				cell.Submit(shares)
				s := cell.Until("four are placed and the fifth waits", func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, "shares") == 4 && waits("shares")(s) })
				for _, p := range s.Node("n1").Placements() {
					if g := p.GetGpus(); len(g) != 1 || g[0].GetMilli() != 250 {
						t.Errorf("%s has %v; want a quarter", p.Slot.Task(), g)
					}
				}
				if why := reasons(s, "shares"); !strings.Contains(why, "largest free: 0m") || !strings.Contains(why, "on node n1") {
					t.Errorf("the fifth waits because %s", why)
				}
				cell.Submit(onGPUs("whole", "batch", 1))
				cell.Until("the whole waits", waits("whole"))
				cell.Mark(celltest.Name("shares"), func(j *ohmv1.Job) { j.Stopped = true })
				for i := range 4 {
					if s := cell.Snapshot(); schedtest.Placed(s, "whole") > 0 {
						t.Fatalf("the whole is placed beside %d quarters", 4-i)
					}
					cell.Release(cellstate.Slot{Namespace: "default", Job: "shares", Group: "g0", Index: i, Version: 1}, task.Stopped)
				}
				cell.Until("the whole is placed", placed("whole", 1))
			})
		})
	}
}

// No commit gives a task devices that its group does not ask for, whoever claims them.
func TestCommitJudgesDevices(t *testing.T) {
	devices := []*ohmv1.Device{{Id: "a", Model: "A", MemoryBytes: 16 << 30}, {Id: "b", Model: "B", MemoryBytes: 80 << 30}}
	share := func(id string, milli int32) *ohmv1.DeviceShare { return &ohmv1.DeviceShare{Id: id, Milli: milli} }
	for name, c := range map[string]struct {
		want  *ohmv1.GPURequest
		claim []*ohmv1.DeviceShare
		fits  bool
	}{
		"two models":                {&ohmv1.GPURequest{Count: 2}, []*ohmv1.DeviceShare{share("a", 1000), share("b", 1000)}, true},
		"two models, one wanted":    {&ohmv1.GPURequest{Count: 2, SameModel: true}, []*ohmv1.DeviceShare{share("a", 1000), share("b", 1000)}, false},
		"another model":             {&ohmv1.GPURequest{Count: 1, Models: []string{"B"}}, []*ohmv1.DeviceShare{share("a", 1000)}, false},
		"too few":                   {&ohmv1.GPURequest{Count: 2}, []*ohmv1.DeviceShare{share("a", 1000)}, false},
		"too little memory":         {&ohmv1.GPURequest{Count: 1, MemoryBytes: 17 << 30}, []*ohmv1.DeviceShare{share("a", 1000)}, false},
		"enough memory":             {&ohmv1.GPURequest{Count: 1, MemoryBytes: 17 << 30}, []*ohmv1.DeviceShare{share("b", 1000)}, true},
		"a share by memory":         {&ohmv1.GPURequest{Count: 1, ShareBytes: 8 << 30}, []*ohmv1.DeviceShare{share("b", 100)}, true},
		"less than that share":      {&ohmv1.GPURequest{Count: 1, ShareBytes: 8 << 30}, []*ohmv1.DeviceShare{share("a", 100)}, false},
		"less than the share":       {&ohmv1.GPURequest{Count: 1, ShareMilli: 300}, []*ohmv1.DeviceShare{share("a", 299)}, false},
		"a share that nothing has":  {&ohmv1.GPURequest{Count: 1, ShareBytes: 81 << 30}, []*ohmv1.DeviceShare{share("b", 1000)}, false},
		"more of a share than this": {&ohmv1.GPURequest{Count: 1, ShareBytes: 80 << 30}, []*ohmv1.DeviceShare{share("b", 1000)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1", Devices: devices})
				j := onGPUs("j", "batch", 1)
				j.Groups[0].Gpus = c.want
				cell.Submit(j)
				s := cell.Snapshot()
				claim := celltest.Claim(s, cellstate.Slot{Namespace: "default", Job: "j", Group: "g0", Version: 1}, "n1")
				claim.GPUs = c.claim
				if fit, conflicts := cellstate.Validate(s, celltest.Txn(s, cellstate.Incremental, claim)); (len(fit) == 1) != c.fits {
					t.Errorf("fits: %v, %v; want %v", len(fit) == 1, conflicts, c.fits)
				}
			})
		})
	}
}

// Field case 51: tasks without devices keep off the node that has some while another one
// has room, also where their policy spreads them; then they may go there, and before if
// they are allowed to.
func TestCase51DeviceNodesComeLast(t *testing.T) {
	for _, c := range []struct {
		kind   string
		policy schedulers.Scheduler
	}{{"batch", batch.New()}, {"service", service.New()}, {"ml", ml.New()}} {
		for when, distinct := range map[string]bool{"": false, "any": false, "with a rule": true} {
			t.Run(c.kind+"/"+when, func(t *testing.T) {
				bubble(t, func(t *testing.T, cell *schedtest.Cell) {
					cell.Up(celltest.Node{Name: "cpu", CPU: 3000}, celltest.Node{Name: "gpu", CPU: 4000, GPUs: 1, Model: "T4"})
					cell.Run(c.kind, "a", c.policy)
					submit := func(name string) {
						j := celltest.Job{Name: name, Kind: c.kind, CPU: 1000, Count: 3}
						spec := j.Proto()
						j.Groups = spec.Groups
						if when == "any" {
							j.Groups[0].DeviceNodes = when
						}
						if distinct {
							j.Groups[0].Spread = &ohmv1.Spread{Over: "driver", MaxSkew: 1}
						}
						cell.Submit(j)
					}
					submit("first")
					s := cell.Until("they are placed", placed("first", 3))
					n := s.Node("gpu").Count()
					switch {
					case when == "any" && c.kind == "service" && n == 0:
						t.Error("a service that is allowed to is not spread over both nodes")
					case when != "any" && n > 0:
						t.Errorf("%d of 3 tasks are on the node with a GPU", n)
					}
					if when == "any" {
						return
					}
					submit("second")
					if s := cell.Until("those beyond go there", placed("second", 3)); s.Node("gpu").Count() != 3 {
						t.Errorf("%d of 6 tasks are on the node with a GPU; want 3", s.Node("gpu").Count())
					}
				})
			})
		}
	}
}
