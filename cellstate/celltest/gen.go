package celltest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Nodes generates a node of that name, small enough that a few tasks fill it.
func Nodes(name string) *rapid.Generator[Node] {
	return rapid.Custom(func(t *rapid.T) Node {
		return Node{
			Name: name, Model: "T4",
			CPU:    500 * rapid.Int64Range(1, 8).Draw(t, "cpu"),
			Memory: rapid.Int64Range(1, 8).Draw(t, "memory") << 30,
			GPUs:   rapid.IntRange(0, 2).Draw(t, "gpus"),
		}
	})
}

// Jobs generates a job of that name, of any kind and precedence.
func Jobs(name string) *rapid.Generator[Job] {
	return rapid.Custom(func(t *rapid.T) Job {
		j := Job{
			Name: name, Kind: rapid.SampledFrom([]string{"batch", "service", "ml"}).Draw(t, "kind"),
			Precedence: rapid.SampledFrom([]int{Free, BatchLevel, Production}).Draw(t, "precedence"),
			Count:      rapid.IntRange(1, 4).Draw(t, "count"),
			CPU:        500 * rapid.Int64Range(0, 4).Draw(t, "cpu"),
			Memory:     rapid.Int64Range(0, 4).Draw(t, "memory") << 30,
			GPUs:       rapid.IntRange(0, 2).Draw(t, "gpus"),
		}
		if j.GPUs == 1 {
			j.Share = rapid.SampledFrom([]int{0, 300, 500, 600}).Draw(t, "share")
		}
		return j
	})
}

// Claims generates a claim as a scheduler that decides on s may make it: mostly honest,
// whether it fits or not; now and then with victims, a port, or something wrong in it.
// s must have a job and a node.
func Claims(s *cellstate.Snapshot) *rapid.Generator[cellstate.Claim] {
	jobs := slices.Collect(s.Jobs())
	nodes := slices.Collect(s.Nodes())
	return rapid.Custom(func(t *rapid.T) cellstate.Claim {
		job := rapid.SampledFrom(jobs).Draw(t, "job")
		n := rapid.SampledFrom(nodes).Draw(t, "node")
		c := Claim(s, Slot(s, job.Name, "main", rapid.IntRange(0, 3).Draw(t, "index")), n.Name)
		if len(n.Placements) > 0 && rapid.IntRange(0, 2).Draw(t, "evict") == 0 {
			for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(n.Placements), 1, 2, rapid.ID[*cellstate.Placement]).Draw(t, "victims") {
				c.Victims = append(c.Victims, Victim(p))
			}
		}
		switch rapid.IntRange(0, 15).Draw(t, "extra") {
		case 0:
			c.Attempt = rapid.IntRange(0, 3).Draw(t, "attempt")
		case 1:
			c.Precedence++
		case 2:
			c.JobRevision--
		case 3:
			c.GPUs = append(c.GPUs, &ohmv1.DeviceShare{Id: GPU(9), Milli: 1000})
		case 4, 5, 6:
			c.Ports = []*ohmv1.Port{{Name: "http", Number: int32(rapid.IntRange(8080, 8081).Draw(t, "port"))}}
		}
		return c
	})
}

// Txns generates a transaction on s of up to four claims, by the scheduler of the
// first one's job, so that a claim for another scheduler's job is in it now and then.
func Txns(s *cellstate.Snapshot, id string) *rapid.Generator[*cellstate.Txn] {
	return rapid.Custom(func(t *rapid.T) *cellstate.Txn {
		claims := rapid.SliceOfN(Claims(s), 1, 4).Draw(t, "claims")
		mode := rapid.SampledFrom([]cellstate.Mode{cellstate.Incremental, cellstate.Atomic}).Draw(t, "mode")
		txn := Txn(s, mode, claims...)
		txn.ID = cellstate.TxnID(fmt.Sprintf("txn-%s", id))
		return txn
	})
}
