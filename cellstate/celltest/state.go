package celltest

import (
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// State is a node in any condition, over-committed ones too, and a transaction about it.
type State struct {
	Node    cellstate.NodeName
	Records []cellstate.Record
	Txn     func(*cellstate.Snapshot) *cellstate.Txn // decided on a snapshot that has the records
	// What makes the parts of the fit rule look at different things.
	Closed    bool // ineligible or draining: nothing is placed, whatever fits
	Held      bool // there are holds
	Evictions bool // on the node, or in the transaction
	Unstarted bool // an heir has not started
}

// Dynamic ports of the states' nodes: so few that they run out.
const (
	FirstPort = 20000
	Ports     = 3
)

// Number of node states that field case 10 asks for.
const Case10 = 100_000

// RandomState is the i-th of a series of states; no two share a node or a job.
func RandomState(rng *rand.Rand, i int) State {
	st := State{Node: cellstate.NodeName(fmt.Sprintf("n%d", i))}
	chance := func(percent int) bool { return rng.IntN(100) < percent }
	node := &ohmv1.Node{Name: string(st.Node), Capacity: &ohmv1.Resources{CpuMilli: 500 * rng.Int64N(21), MemoryBytes: rng.Int64N(21) << 30, DiskBytes: rng.Int64N(8) << 30}}
	for g := range rng.IntN(4) {
		node.Gpus = append(node.Gpus, &ohmv1.Device{
			Id: GPU(g), Model: []string{"T4", "V100", "", "never-heard-of"}[rng.IntN(4)],
			Health: ohmv1.DeviceHealth(max(0, rng.IntN(20)-16)), // one in seven is not healthy
		})
	}
	put := func(key cellstate.Key, value proto.Message) {
		st.Records = append(st.Records, cellstate.Record{Key: key, Value: value})
	}
	if chance(80) {
		node.DynamicPorts = &ohmv1.PortRange{First: FirstPort, Last: FirstPort + Ports - 1}
	}
	if chance(10) {
		node.ReservedPorts = []int32{8081, FirstPort}
	}
	put(cellstate.NodeKey(st.Node), node)
	if st.Closed = chance(8); st.Closed {
		put(cellstate.IntentKey(st.Node), &ohmv1.Intent{Node: node.Name, Ineligible: true})
	}
	resources := func() *ohmv1.Resources {
		return &ohmv1.Resources{CpuMilli: 250 * rng.Int64N(8), MemoryBytes: rng.Int64N(4) << 30, DiskBytes: rng.Int64N(2) << 30}
	}
	devices := func(known int) (out []*ohmv1.DeviceShare) {
		if known == 0 || chance(50) {
			return nil
		}
		if chance(50) {
			return []*ohmv1.DeviceShare{{Id: GPU(rng.IntN(known)), Milli: 100 * (1 + rng.Int32N(10))}}
		}
		for g := range 1 + rng.IntN(known) {
			out = append(out, &ohmv1.DeviceShare{Id: GPU(g), Milli: 1000})
		}
		return out
	}
	ports := func(percent int) (out []*ohmv1.Port) {
		for n := range 2 {
			if chance(percent) {
				out = append(out, &ohmv1.Port{Name: fmt.Sprint("p", n), Number: int32(8080 + n + rng.IntN(2))})
			}
		}
		if chance(percent) {
			out = append(out, &ohmv1.Port{Name: "d", Number: FirstPort + rng.Int32N(Ports)})
		}
		return out
	}
	evictions := chance(25)
	for k := range rng.IntN(6) {
		slot := cellstate.Slot{Namespace: "default", Job: fmt.Sprintf("on%d", i), Group: "main", Index: k, Version: 1}
		p := &ohmv1.Placement{Slot: slot.Proto(), Attempt: 1, Node: node.Name, Precedence: 100 * rng.Int32N(3), Txn: fmt.Sprintf("t%d-%d", i, k),
			Resources: resources(), Gpus: devices(len(node.Gpus)), Ports: ports(15)}
		started := chance(70)
		if evictions {
			st.Evictions = true
			set := fmt.Sprintf("e%d-%d", i, rng.IntN(2))
			switch rng.IntN(3) {
			case 0:
				p.EvictedBy = set
			case 1:
				p.Txn, p.Victims = set, []*ohmv1.Victim{{Slot: slot.Proto(), Attempt: 1, Txn: "gone"}}
				st.Unstarted = st.Unstarted || !started
			}
		}
		put(slot.PlacementKey(), p)
		if started {
			put(slot.StatusKey(), &ohmv1.Status{Slot: p.Slot, Attempt: 1, Txn: p.Txn, Node: p.Node, State: task.Running})
		}
	}
	if st.Held = chance(15); st.Held {
		hold := &ohmv1.Hold{Node: node.Name, Txn: fmt.Sprintf("h%d", i), Precedence: 100 * rng.Int32N(3), Resources: resources(), Gpus: devices(len(node.Gpus)), Ports: ports(20)}
		put(cellstate.HoldKey(st.Node, cellstate.TxnID(hold.Txn)), hold)
	}
	precedence := 100 * rng.IntN(4)
	job := Job{Name: fmt.Sprintf("new%d", i), Precedence: precedence, Count: 4}
	put(cellstate.JobKey(Name(job.Name)), &ohmv1.Job{Spec: job.Proto(), Version: 1})
	claims := make([]cellstate.Claim, 1+rng.IntN(2))
	for k := range claims {
		claims[k] = cellstate.Claim{Slot: cellstate.Slot{Namespace: "default", Job: job.Name, Group: "main", Index: k, Version: 1}, Attempt: 1,
			Node: st.Node, Precedence: precedence, Resources: resources(), GPUs: devices(min(4, len(node.Gpus)+rng.IntN(12)/11)), Ports: ports(15)}
	}
	victims, mode := chance(20), cellstate.Mode(cellstate.Incremental)
	if chance(30) {
		mode = cellstate.Atomic
	}
	st.Evictions = st.Evictions || victims
	picks := [2]int{rng.IntN(6), rng.IntN(6)}
	st.Txn = func(s *cellstate.Snapshot) *cellstate.Txn {
		mine := make([]cellstate.Claim, len(claims))
		for k, c := range claims {
			c.JobRevision = s.Job(c.Slot.JobName()).Revision
			mine[k] = c
		}
		if on := s.Node(st.Node).Placements(); victims {
			for k, pick := range picks {
				if pick < len(on) && k < len(mine) {
					mine[k].Victims = []*ohmv1.Victim{Victim(on[pick])}
				}
			}
		}
		return &cellstate.Txn{ID: cellstate.TxnID(fmt.Sprintf("new%d", i)), Scheduler: "batch", Instance: "test", Mode: mode, Snapshot: s.Revision(), Claims: mine}
	}
	return st
}

// Changes are the state's records as a load brings them.
func (st State) Changes(at cellstate.Revision) []cellstate.Change {
	out := make([]cellstate.Change, len(st.Records))
	for i, r := range st.Records {
		out[i] = cellstate.Change{Key: r.Key, Value: r.Value, Revision: at}
	}
	return out
}
