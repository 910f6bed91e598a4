package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Field case 10: the agent lets a task in if and only if the cell's rule says that it fits,
// on 10^5 random node states. Where the two look at different things, which is on purpose,
// one still implies the other: of an eviction, what goes and what comes are both charged as
// long as both may be alive, and a hold is a promise among schedulers.
func TestCase10(t *testing.T) {
	const parts, each = 8, 250
	var looked, equals, implied, in, out atomic.Int64
	t.Run("states", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(110, uint64(part)))
				for range celltest.Case10 / parts / each {
					var states []celltest.State
					var records []cellstate.Change
					for i := range each {
						states = append(states, celltest.RandomState(rng, i))
						records = append(records, states[i].Changes(7)...)
					}
					s, err := cellstate.NewSnapshot(9, records, nil)
					if err != nil {
						t.Fatal(err)
					}
					for i, st := range states {
						looked.Add(1)
						if st.Closed {
							continue // a wish of the operator's, which schedulers obey
						}
						txn := st.Txn(s)
						txn.Claims = txn.Claims[:1] // what is judged beside it is what is alive
						fit, conflicts := cellstate.Validate(s, txn)
						ok := lets(s.Node(st.Node), &txn.Claims[0])
						switch {
						case !st.Held && !st.Evictions:
							equals.Add(1)
							if ok != (len(fit) == 1) {
								t.Fatalf("state %d: the rule says %v, %+v; the agent %v", i, fit, conflicts, ok)
							}
						case st.Held && !st.Evictions && len(fit) == 1 && !ok:
							t.Fatalf("state %d: it fits beside what is held; the agent refuses it", i)
						case st.Evictions && !st.Held && len(txn.Claims[0].Victims) == 0 && ok && len(fit) == 0:
							t.Fatalf("state %d: the agent takes it beside all that may be alive; the rule says %+v", i, conflicts)
						default:
							implied.Add(1)
						}
						if ok {
							in.Add(1)
						} else {
							out.Add(1)
						}
					}
				}
			})
		}
	})
	few := int64(celltest.Case10 / 5)
	if looked.Load() != celltest.Case10 || equals.Load() < 2*few || implied.Load() < few || in.Load() < few || out.Load() < few {
		t.Errorf("%d states: %d equal, %d implied, %d let in, %d not", looked.Load(), equals.Load(), implied.Load(), in.Load(), out.Load())
	}
}

// lets says whether the agent of a node lets a claim in beside all that stands there.
func lets(n *cellstate.Node, c *cellstate.Claim) bool {
	alive := make([]*ohmv1.Placement, len(n.Placements()))
	for i, p := range n.Placements() {
		alive[i] = p.Record()
	}
	verdicts := admit(row(n.Facts, alive), []*ohmv1.Placement{{Resources: c.Resources, Gpus: c.GPUs, Ports: c.Ports}})
	return slices.ContainsFunc(verdicts, func(v verdict) bool { return v.ok })
}
