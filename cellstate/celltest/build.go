// Package celltest builds cells for tests: nodes and jobs from a few words, the state
// of a cell in any store, and rapid generators of nodes, claims and transactions.
//
//	cell := celltest.New(t, memstore.New())
//	cell.Node(celltest.Node{Name: "n1", CPU: 4000})
//	cell.Job(celltest.Job{Name: "a", Count: 2, CPU: 1000})
//	cell.Place("a", 0, "n1")
//	s := cell.Snapshot()
package celltest

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Amounts that a Node has where it does not say otherwise.
const (
	NodeCPU    = 4000      // milli
	NodeMemory = 16 << 30  // bytes
	NodeDisk   = 100 << 30 // bytes
)

// Node describes a node. Amounts that are 0 are those of the constants above.
type Node struct {
	Name       string
	CPU        int64 // milli
	Memory     int64 // bytes
	Disk       int64 // bytes
	GPUs       int   // with ids gpu-0, gpu-1, …
	Model      string
	Devices    []*ohmv1.Device // in place of GPUs
	Attributes map[string]string
	DiskFull   string

	Driver       string   // default: hollow
	Capabilities []string // those that Ohm had before it knew images, if there are none
	Ports        [2]int32 // first and last of its dynamic ones; 0: it has none
	Reserved     []int32
}

// Proto is the agent's record of the node.
func (n Node) Proto() *ohmv1.Node {
	or := func(amount, otherwise int64) int64 {
		if amount == 0 {
			return otherwise
		}
		return amount
	}
	p := &ohmv1.Node{
		Name: n.Name, BootId: "boot-" + n.Name, Driver: cmp.Or(n.Driver, "hollow"), Capabilities: n.Capabilities, Attributes: n.Attributes, DiskFull: n.DiskFull,
		Capacity: &ohmv1.Resources{CpuMilli: or(n.CPU, NodeCPU), MemoryBytes: or(n.Memory, NodeMemory), DiskBytes: or(n.Disk, NodeDisk)},
	}
	if n.Ports[0] > 0 {
		p.DynamicPorts = &ohmv1.PortRange{First: n.Ports[0], Last: n.Ports[1]}
	}
	p.ReservedPorts = n.Reserved
	p.Gpus = n.Devices
	for i := range n.GPUs {
		p.Gpus = append(p.Gpus, &ohmv1.Device{Id: GPU(i), Model: n.Model})
	}
	return p
}

// GPU is the id of a node's i-th GPU.
func GPU(i int) string { return fmt.Sprintf("gpu-%d", i) }

// Precedences of the contract.
const (
	Free       = 0
	BatchLevel = 100
	Production = 200
	System     = 300
)

// Job describes a job of one group, "main", or of the Groups given.
type Job struct {
	Name        string
	Namespace   string // default: default
	Kind        string // default: batch
	Scheduler   string // default: the kind
	Precedence  int
	Retries     int
	MaxRuntime  time.Duration // 0: no limit
	MaxParallel int           // 0: any number
	Gang        bool          // all tasks together
	Min         int32         // or so many of them
	Timeout     time.Duration // after which OnTimeout happens
	OnTimeout   string        // default: wait
	Within      string        // and within one domain of this label
	Count       int           // default: 1; of a system job always 0
	CPU         int64
	Memory      int64
	Disk        int64
	GPUs        int // for each task
	Share       int // milli of one GPU; needs GPUs: 1
	Models      []string
	Ports       []*ohmv1.Port // number 0: a dynamic one
	Constraints []*ohmv1.Constraint
	Groups      []*ohmv1.Group

	Labels                 map[string]string
	Affinity, AntiAffinity []*ohmv1.Affinity
	Distinct               string
	Spread                 *ohmv1.Spread
	Disruption             *ohmv1.Disruption
}

// Proto is the spec as the server would store it.
func (j Job) Proto() *ohmv1.JobSpec {
	spec := &ohmv1.JobSpec{
		Name: j.Name, Namespace: j.Namespace, Kind: j.Kind, Scheduler: j.Scheduler,
		Precedence: proto.Int32(int32(j.Precedence)), Retries: int32(j.Retries), Groups: j.Groups, Labels: j.Labels, Disruption: j.Disruption,
		MaxParallel: int32(j.MaxParallel),
	}
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	if spec.Kind == "" {
		spec.Kind = "batch"
	}
	if spec.Scheduler == "" {
		spec.Scheduler = spec.Kind
	}
	if j.MaxRuntime > 0 {
		spec.MaxRuntime = durationpb.New(j.MaxRuntime)
	}
	if j.Gang || j.Within != "" {
		spec.Gang = &ohmv1.Gang{Min: j.Min, OnTimeout: cmp.Or(j.OnTimeout, "wait"), Within: j.Within}
		if j.Timeout > 0 {
			spec.Gang.Timeout = durationpb.New(j.Timeout)
		}
	}
	if len(spec.Groups) == 0 {
		g := &ohmv1.Group{
			Name: "main", Count: int32(max(1, j.Count)), Command: []string{"true"}, Constraints: j.Constraints, Ports: j.Ports,
			Resources: &ohmv1.Resources{CpuMilli: j.CPU, MemoryBytes: j.Memory, DiskBytes: j.Disk},
			Affinity:  j.Affinity, AntiAffinity: j.AntiAffinity, Distinct: j.Distinct, Spread: j.Spread,
		}
		if spec.Kind == "system" {
			g.Count = 0
		}
		if j.GPUs > 0 {
			g.Gpus = &ohmv1.GPURequest{Count: int32(j.GPUs), ShareMilli: int32(j.Share), Models: j.Models}
		}
		spec.Groups = []*ohmv1.Group{g}
	}
	return spec
}
