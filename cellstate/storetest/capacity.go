package storetest

import (
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// L1: no revision adds to a node beyond its capacity then, in any dimension.
func capacityLaws() []law {
	const gi = 1 << 30
	node := celltest.Node{Name: "n1", CPU: 4000, Memory: 4 * gi, Disk: 4 * gi, GPUs: 1, Model: "T4"}
	var laws []law
	for _, d := range []struct {
		name      string
		job       celltest.Job
		ports     []*ohmv1.Port
		reason    cellstate.Reason
		dimension string
		wanted    string
		free      string
	}{
		{"cpu", celltest.Job{CPU: 3000}, nil, cellstate.ReasonResources, "cpu", "3", "1"},
		{"memory", celltest.Job{Memory: 3 * gi}, nil, cellstate.ReasonResources, "memory", "3Gi", "1Gi"},
		{"disk", celltest.Job{Disk: 3 * gi}, nil, cellstate.ReasonResources, "disk", "3Gi", "1Gi"},
		{"a whole GPU", celltest.Job{GPUs: 1}, nil, cellstate.ReasonDevice, celltest.GPU(0), "1000m", "0m"},
		{"shares of a GPU", celltest.Job{GPUs: 1, Share: 600}, nil, cellstate.ReasonDevice, celltest.GPU(0), "600m", "400m"},
		{"a port", celltest.Job{}, []*ohmv1.Port{{Name: "http", Number: 8080}}, cellstate.ReasonPort, "8080", "http", ""},
	} {
		laws = append(laws, law{"L1/race for " + d.name, func(c *cell) {
			c.Node(node)
			job := d.job
			for _, job.Name = range []string{"a", "b"} {
				c.Job(job)
			}
			txn := func(job string) func(s *cellstate.Snapshot) *cellstate.Txn {
				return func(s *cellstate.Snapshot) *cellstate.Txn {
					t := one(job, 0, "n1")(s)
					t.Claims[0].Ports = d.ports
					return t
				}
			}
			first := c.side()
			var won cellstate.Result
			r, s := c.late(txn("b"), func() {
				won = c.committed(c.commit(first, txn("a")(first.Snapshot())))
			})
			c.refusedOnce(s)
			got := c.lost(r, d.reason)
			if got.Dimension != d.dimension || got.Wanted != d.wanted || got.Free != d.free {
				c.Errorf("conflict says %q, wanted %q, free %q; want %q, %q, %q", got.Dimension, got.Wanted, got.Free, d.dimension, d.wanted, d.free)
			}
			if got.Winner == nil || got.Winner.TxnID() != won.Txn.ID {
				c.Errorf("winner %v, want transaction %s", got.Winner, won.Txn.ID)
			}
		}})
	}
	return append(laws,
		law{"L1/shares that add up to one GPU all commit", func(c *cell) {
			c.Node(node)
			c.Job(celltest.Job{Name: "a", GPUs: 1, Share: 400})
			c.Job(celltest.Job{Name: "b", GPUs: 1, Share: 600})
			r, _ := c.late(one("b", 0, "n1"), func() { c.Place("a", 0, "n1") })
			c.committed(r)
		}},
		law{"L1/a node that shrinks meanwhile", func(c *cell) {
			c.Node(node)
			c.Job(celltest.Job{Name: "a", CPU: 3000})
			r, s := c.late(one("a", 0, "n1"), func() { c.Node(celltest.Node{Name: "n1", CPU: 2000}) })
			c.refusedOnce(s)
			if got := c.lost(r, cellstate.ReasonResources); got.Winner != nil {
				c.Errorf("winner %v, but nobody won", got.Winner)
			}
		}},
		law{"L1/a shrunk node still gives what it is not short of", func(c *cell) {
			c.Node(node)
			c.Job(celltest.Job{Name: "a", CPU: 3000})
			c.Job(celltest.Job{Name: "b", Memory: gi})
			c.Job(celltest.Job{Name: "c", CPU: 1})
			c.Place("a", 0, "n1")
			c.Node(celltest.Node{Name: "n1", CPU: 2000, Memory: 4 * gi})
			s := c.side()
			c.committed(c.commit(s, one("b", 0, "n1")(s.Snapshot())))
			c.lost(c.commit(s, one("c", 0, "n1")(s.Snapshot())), cellstate.ReasonResources)
		}},
		law{"L1/a node that turns ineligible meanwhile", func(c *cell) {
			c.Node(node)
			c.Job(celltest.Job{Name: "a"})
			r, s := c.late(one("a", 0, "n1"), func() { c.Intent(&ohmv1.Intent{Node: "n1", Ineligible: true}) })
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonIneligible)
		}},
		law{"L1/a hold that was placed meanwhile", func(c *cell) {
			c.Node(node)
			c.Job(celltest.Job{Name: "a", CPU: 3000})
			r, s := c.late(one("a", 0, "n1"), func() {
				c.Hold(&ohmv1.Hold{Node: "n1", Txn: "starving", Resources: &ohmv1.Resources{CpuMilli: 2000}})
			})
			c.refusedOnce(s)
			c.lost(r, cellstate.ReasonHold)
		}},
		law{"L1/many claims from both sides at once fill a node exactly", fillExactly},
	)
}

// fillExactly lets two sides race for ten places with twenty tasks.
func fillExactly(c *cell) {
	c.Node(celltest.Node{Name: "n1", CPU: 10_000})
	c.Job(celltest.Job{Name: "a", Count: 10, CPU: 1000})
	c.Job(celltest.Job{Name: "b", Count: 10, CPU: 1000})
	sides := map[string]*side{"a": c.side(), "b": c.side()}
	c.Run("both", func(t *testing.T) {
		for job, s := range sides {
			t.Run(job, func(t *testing.T) {
				t.Parallel()
				for i := range 10 {
					now := s.Snapshot()
					if _, err := s.Commit(c.ctx, one(job, i, "n1")(now)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
	s := c.Snapshot()
	if n := s.Node("n1"); n.Count() != 10 || n.Used().CPUMilli != 10_000 {
		c.Errorf("%d placements use %d milli of 10000", n.Count(), n.Used().CPUMilli)
	}
	c.replay(c.present(), func(s *cellstate.Snapshot) {
		if n := s.Node("n1"); n != nil && n.Used().CPUMilli > 10_000 {
			c.Errorf("revision %d: %d milli of 10000", s.Revision(), n.Used().CPUMilli)
		}
	})
}
