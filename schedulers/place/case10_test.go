package place_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/service"
)

// Field case 10: a scheduler places a task on a node if and only if the cell's rule says
// that it fits there, on 10^5 random node states.
func TestCase10(t *testing.T) {
	const parts, each = 8, 50
	var looked, placed, refused atomic.Int64
	t.Run("states", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(210, uint64(part)))
				policy := []schedulers.Scheduler{batch.New(), service.New()}[part%2]
				for range celltest.Case10 / parts / each {
					in := oneNodeEach(t, rng, each)
					out, err := policy.Schedule(t.Context(), in)
					if err != nil {
						t.Fatal(err)
					}
					claims := map[cellstate.Slot]cellstate.Claim{}
					for _, txn := range out.Txns {
						for _, c := range txn.Claims {
							claims[c.Slot] = c
						}
					}
					for _, w := range in.Work {
						looked.Add(1)
						need := w.Needs[0]
						c, ok := claims[need.Slot]
						if ok {
							placed.Add(1)
							if c.Node != need.Node || !fits(in.Snapshot, c) {
								t.Fatalf("%v goes to %s and does not fit", need.Slot, c.Node)
							}
							continue
						}
						refused.Add(1)
						if c, ok := someChoice(in.Snapshot, need); ok {
							t.Fatalf("%v does not go to %s and fits: %+v", need.Slot, need.Node, c)
						}
					}
				}
			})
		}
	})
	if looked.Load() != celltest.Case10 || placed.Load() < celltest.Case10/5 || refused.Load() < celltest.Case10/5 {
		t.Errorf("%d states: %d placed, %d refused", looked.Load(), placed.Load(), refused.Load())
	}
}

// oneNodeEach is the input of jobs of which each may go to one node in any condition.
func oneNodeEach(t *testing.T, rng *rand.Rand, count int) schedulers.Input {
	t.Helper()
	var records []cellstate.Change
	var jobs []celltest.Job
	var nodes []cellstate.NodeName
	for i := range count {
		st := celltest.RandomState(rng, i)
		records = append(records, st.Changes(7)...)
		records = append(records, cellstate.Change{Key: cellstate.AliveKey(st.Node), Value: &ohmv1.Alive{Node: string(st.Node)}, Revision: 7})
		job := celltest.Job{Name: fmt.Sprintf("fits%d", i), Precedence: 100 * rng.IntN(4),
			CPU: 250 * rng.Int64N(8), Memory: rng.Int64N(4) << 30, Disk: rng.Int64N(2) << 30,
			Constraints: []*ohmv1.Constraint{{Key: "node", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{string(st.Node)}}}}
		if job.GPUs = max(0, rng.IntN(6)-3); job.GPUs == 1 && rng.IntN(2) == 0 {
			job.Share = 100 * (1 + rng.IntN(9))
		}
		if rng.IntN(3) == 0 {
			for n := range 1 + rng.IntN(2) {
				job.Ports = append(job.Ports, &ohmv1.Port{Name: fmt.Sprint("d", n)})
			}
		}
		if rng.IntN(4) == 0 {
			job.Ports = append(job.Ports, &ohmv1.Port{Name: "s", Number: int32(8080 + rng.IntN(2))})
		}
		records = append(records, cellstate.Change{Key: cellstate.JobKey(celltest.Name(job.Name)), Value: &ohmv1.Job{Spec: job.Proto(), Version: 1}, Revision: 8})
		jobs, nodes = append(jobs, job), append(nodes, st.Node)
	}
	s, err := cellstate.NewSnapshot(9, records, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := schedulers.Input{Snapshot: s, Seed: rng.Uint64(), Limits: cellstate.Limits{Claims: 100}}
	for i, j := range jobs {
		row := s.Job(celltest.Name(j.Name))
		in.Work = append(in.Work, schedulers.Work{Job: row, Needs: []reconcile.Need{{
			Slot: celltest.Slot(s, row.Name, "main", 0), Attempt: 1, Group: row.Group("main"), Node: nodes[i]}}})
	}
	return in
}

func fits(s *cellstate.Snapshot, c cellstate.Claim) bool {
	fit, _ := cellstate.Validate(s, celltest.Txn(s, cellstate.Incremental, c))
	return len(fit) == 1
}

// someChoice looks for devices and ports with which the need fits on its node.
func someChoice(s *cellstate.Snapshot, need reconcile.Need) (cellstate.Claim, bool) {
	dynamic := 0
	for _, p := range need.Group.GetPorts() {
		if p.GetNumber() == 0 {
			dynamic++
		}
	}
	for choice := range 1 << (2 * dynamic) { // the dynamic ones stand first
		c := celltest.Claim(s, need.Slot, need.Node)
		c.Ports = nil
		for i, p := range need.Group.GetPorts() {
			if p = proto.CloneOf(p); p.GetNumber() == 0 {
				p.Number = celltest.FirstPort + int32(choice>>(2*i)&3)
			}
			c.Ports = append(c.Ports, p)
		}
		if c, ok := someDevices(s, need, c); ok {
			return c, true
		}
	}
	return cellstate.Claim{}, false
}

func someDevices(s *cellstate.Snapshot, need reconcile.Need, c cellstate.Claim) (cellstate.Claim, bool) {
	want := need.Group.GetGpus()
	if want == nil {
		return c, fits(s, c)
	}
	milli := want.GetShareMilli()
	if milli == 0 {
		milli = 1000
	}
	devices := s.Node(need.Node).Facts.GetGpus()
	for choice := range uint(1) << len(devices) {
		if bits.OnesCount(choice) != int(want.GetCount()) {
			continue
		}
		c.GPUs = nil
		for i, d := range devices {
			if choice>>i&1 == 1 {
				c.GPUs = append(c.GPUs, &ohmv1.DeviceShare{Id: d.GetId(), Milli: milli})
			}
		}
		if fits(s, c) {
			return c, true
		}
	}
	return c, false
}
