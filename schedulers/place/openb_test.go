package place_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/ml"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/service"
)

// The packing of a real cell: 1,523 nodes with 6,212 GPUs, 8,152 tasks in the order of
// their arrival, of which nothing leaves. Every claim is judged by cellstate.Validate.
func TestOpenb(t *testing.T) {
	folder := os.Getenv("OHM_TRACES")
	if folder == "" {
		t.Skip("TestOpenb needs real traces: set OHM_TRACES")
	}
	for _, c := range []struct {
		name, list string
		three      bool // schedulers with a home share each, not one
		together   int  // tasks of a round
		least      float64
	}{
		{"one scheduler, task by task", "default", false, 1, 95.3},
		{"one scheduler, 64 tasks at a time", "default", false, 64, 95.3},
		{"three schedulers", "default", true, 64, 95.0},
		{"model constraints", "gpuspec10", false, 64, 95.0},
		{"model constraints, three schedulers", "gpuspec10", true, 64, 95.0},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := newSim(t, folder, c.list, c.three)
			for tasks := range slices.Chunk(sim.tasks, c.together) {
				sim.submit(t, tasks)
			}
			t.Logf("%.2f%% of the GPUs, %d refused, first %d, %.1f µs a decision", sim.percent(), sim.refused, sim.first,
				float64(sim.busy.Microseconds())/float64(len(sim.tasks)))
			if sim.percent() < c.least {
				t.Errorf("%.2f%% of the GPUs are allocated; want at least %.2f", sim.percent(), c.least)
			}
		})
	}
}

type sim struct {
	names    []string
	policies map[string]schedulers.Scheduler
	tasks    []simTask
	snapshot *cellstate.Snapshot

	total, placed  int64 // thousandths of GPUs
	refused, first int
	busy           time.Duration
}

type simTask struct {
	number int // from 1, in file order
	job    *ohmv1.Job
}

func newSim(t testing.TB, folder, list string, three bool) *sim {
	s := &sim{names: []string{"batch"}, policies: map[string]schedulers.Scheduler{"batch": batch.New()}}
	if three {
		s.names = []string{"service", "batch", "ml"}
		s.policies["service"], s.policies["ml"] = service.New(), ml.New()
	}
	var cell []cellstate.Change
	for _, row := range readCSV(t, filepath.Join(folder, "openb", "openb_node_list_all_node.csv")) {
		n := &ohmv1.Node{Name: row["sn"], Capacity: &ohmv1.Resources{CpuMilli: number(row["cpu_milli"]), MemoryBytes: number(row["memory_mib"]) << 20}}
		for i := range number(row["gpu"]) {
			n.Gpus = append(n.Gpus, &ohmv1.Device{Id: fmt.Sprint(i), Model: row["model"]})
			s.total += 1000
		}
		name := cellstate.NodeName(n.Name)
		cell = append(cell,
			cellstate.Change{Key: cellstate.NodeKey(name), Value: n, Revision: 1},
			cellstate.Change{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: n.Name}, Revision: 1})
	}
	snapshot, err := cellstate.NewSnapshot(1, cell, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.snapshot = snapshot
	for i, row := range readCSV(t, filepath.Join(folder, "openb", "openb_pod_list_"+list+".csv")) {
		g := &ohmv1.Group{Name: "main", Count: 1, Resources: &ohmv1.Resources{CpuMilli: number(row["cpu_milli"]), MemoryBytes: number(row["memory_mib"]) << 20}}
		if n := number(row["num_gpu"]); n > 0 {
			g.Gpus = &ohmv1.GPURequest{Count: int32(n)}
			if n == 1 {
				g.Gpus.ShareMilli = int32(number(row["gpu_milli"]))
			}
			if row["gpu_spec"] != "" {
				g.Gpus.Models = strings.Split(row["gpu_spec"], "|")
			}
		}
		scheduler := "batch"
		switch {
		case !three:
		case g.GetGpus().GetCount() > 1:
			scheduler = "ml"
		case row["qos"] == "LS" || row["qos"] == "Guaranteed":
			scheduler = "service"
		}
		s.tasks = append(s.tasks, simTask{i + 1, &ohmv1.Job{Version: 1, Spec: &ohmv1.JobSpec{
			Namespace: "default", Name: row["name"], Kind: scheduler, Scheduler: scheduler, Groups: []*ohmv1.Group{g}}}})
	}
	return s
}

// submit lets each scheduler place its part of the tasks, one after the other.
func (s *sim) submit(t testing.TB, tasks []simTask) {
	var jobs []cellstate.Change
	for _, task := range tasks {
		jobs = append(jobs, cellstate.Change{Key: cellstate.JobKey(cellstate.JobNameOf(task.job.GetSpec())), Value: task.job})
	}
	s.apply(t, jobs)
	for home, name := range s.names {
		var in schedulers.Input
		asked := map[cellstate.Slot]simTask{}
		for _, task := range tasks {
			if spec := task.job.GetSpec(); spec.GetScheduler() == name {
				slot := cellstate.Slot{Namespace: "default", Job: spec.GetName(), Group: "main", Version: 1}
				asked[slot] = task
				in.Work = append(in.Work, schedulers.Work{
					Job:   s.snapshot.Job(slot.JobName()),
					Needs: []reconcile.Need{{Slot: slot, Attempt: 1, Group: spec.GetGroups()[0]}},
				})
			}
		}
		if len(in.Work) == 0 {
			continue
		}
		in.Snapshot, in.Seed = s.snapshot, uint64(s.snapshot.Revision())*0x9E3779B97F4A7C15
		in.Home = schedulers.Home{Index: home, Of: len(s.names)}
		began := time.Now()
		p, err := s.policies[name].Schedule(context.Background(), in)
		s.busy += time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		s.commit(t, name, p, asked)
	}
}

func (s *sim) commit(t testing.TB, scheduler string, p schedulers.Proposal, asked map[cellstate.Slot]simTask) {
	var placed []cellstate.Change
	for _, txn := range p.Txns {
		txn.Scheduler, txn.Snapshot = scheduler, s.snapshot.Revision()
		for _, c := range txn.Claims {
			task := asked[c.Slot]
			want := task.job.GetSpec().GetGroups()[0].GetGpus()
			for _, g := range c.GPUs {
				s.placed += int64(g.GetMilli())
				i := slices.IndexFunc(s.snapshot.Node(c.Node).Facts.GetGpus(), func(d *ohmv1.Device) bool { return d.GetId() == g.GetId() })
				if model := s.snapshot.Node(c.Node).Facts.GetGpus()[i].GetModel(); len(want.GetModels()) > 0 && !slices.Contains(want.GetModels(), model) {
					t.Fatalf("%s wants %v and got a %s", c.Slot, want.GetModels(), model)
				}
			}
			placed = append(placed, cellstate.Change{Key: c.Slot.PlacementKey(), Value: &ohmv1.Placement{
				Slot: c.Slot.Proto(), Attempt: 1, Node: string(c.Node), Resources: c.Resources, Gpus: c.GPUs, Scheduler: scheduler}})
		}
	}
	// All of a round together must fit: one transaction says so.
	all := &cellstate.Txn{Mode: cellstate.Atomic, Scheduler: scheduler, Snapshot: s.snapshot.Revision()}
	for _, txn := range p.Txns {
		all.Claims = append(all.Claims, txn.Claims...)
	}
	if _, conflicts := cellstate.Validate(s.snapshot, all); len(conflicts) > 0 {
		t.Fatalf("a proposal does not fit its own snapshot: %+v", conflicts)
	}
	for _, u := range p.Unplaced {
		s.refused++
		if n := asked[u.Slots[0]].number; s.first == 0 || n < s.first {
			s.first = n
		}
		sum := int32(0)
		for _, r := range u.Reasons {
			sum += r.GetNodes()
		}
		if int(sum) != u.Nodes || u.Nodes != 1523 {
			t.Fatalf("the reasons of %s add up to %d of %d nodes", u.Slots[0], sum, u.Nodes)
		}
	}
	if len(placed)+len(p.Unplaced) != len(asked) {
		t.Fatalf("%d tasks placed and %d explained, of %d", len(placed), len(p.Unplaced), len(asked))
	}
	s.apply(t, placed)
}

func (s *sim) apply(t testing.TB, changes []cellstate.Change) {
	at := s.snapshot.Revision() + 1
	for i := range changes {
		changes[i].Revision = at
	}
	next, _, err := s.snapshot.Apply(cellstate.Batch{Revision: at, Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	s.snapshot = next
}

func (s *sim) percent() float64 { return 100 * float64(s.placed) / float64(s.total) }

func readCSV(t testing.TB, name string) (rows []map[string]string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, column := range lines[0] {
			row[column] = line[i]
		}
		rows = append(rows, row)
	}
	return rows
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
