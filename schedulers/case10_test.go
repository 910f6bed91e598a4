package schedulers_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// wantsPort is a policy that gives each task port 8080 of the first node that has it
// free, and notes what it has proposed.
type wantsPort struct {
	mu       sync.Mutex
	proposed []string // the claim's node and the fence that is known of it
}

func (w *wantsPort) Schedule(_ context.Context, in schedulers.Input) (out schedulers.Proposal, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, work := range in.Work {
		for _, need := range work.Needs {
			for n := range in.Snapshot.Nodes() {
				c := celltest.Claim(in.Snapshot, need.Slot, n.Name)
				c.Ports = []*ohmv1.Port{{Name: "http", Number: 8080}}
				txn := celltest.Txn(in.Snapshot, cellstate.Incremental, c)
				if fit, _ := cellstate.Validate(in.Snapshot, txn); len(fit) == 0 {
					continue
				}
				w.proposed = append(w.proposed, fmt.Sprint(n.Name, " at fence ", n.Fence))
				out.Txns = append(out.Txns, &cellstate.Txn{Mode: cellstate.Incremental, Claims: []cellstate.Claim{c}})
				break
			}
		}
	}
	return out, nil
}

// Field case 10: who holds a port, a scheduler has not been told. It loses the node once,
// proposes nothing twice, and places the task elsewhere within three attempts.
func TestCase10HiddenPortHolder(t *testing.T) {
	for _, gone := range []bool{false, true} { // whether it has missed a second placement there, too
		t.Run(fmt.Sprint("twice=", gone), func(t *testing.T) {
			hidden := func(c cellstate.Change) bool {
				k := c.Key.Parse()
				return k.Kind == cellstate.KindPlacement && k.Slot.Job == "holder"
			}
			var sent atomic.Int64 // claims of the port that the store was asked for on the node
			counted := func(writes []cellstate.Write) bool {
				for _, w := range writes {
					for _, r := range w.Records {
						if p, ok := r.Value.(*ohmv1.Placement); ok && p.GetSlot().GetJob() == "j" && p.GetNode() == "n1" {
							sent.Add(1)
						}
					}
				}
				return false
			}
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1"}, celltest.Node{Name: "n2"}, celltest.Node{Name: "n3"})
				cell.Job(celltest.Job{Name: "holder", Scheduler: "nobody", Count: 2, CPU: 100})
				policy := &wantsPort{}
				s := cell.Run("batch", "a", policy)
				cell.Until("it is there", func(now *cellstate.Snapshot) bool {
					return now.Scheduler("batch") != nil && s.Mirror.Snapshot() != nil
				})
				hold := func(index int, port int32) {
					now := cell.Snapshot()
					c := celltest.Claim(now, celltest.Slot(now, celltest.Name("holder"), "main", index), "n1")
					c.Ports = []*ohmv1.Port{{Name: "http", Number: port}}
					cell.Commit(now, celltest.Txn(now, cellstate.Incremental, c))
				}
				hold(0, 8080)
				if gone {
					hold(1, 8081)
				}
				cell.Submit(celltest.Job{Name: "j", CPU: 100})
				now := cell.Within(5*time.Second, "it is placed elsewhere", placed("j", 1))
				if p := now.Job(celltest.Name("j")).Tasks[0].Placement; p.GetNode() != "n2" || p.GetAttempt() != 1 {
					t.Errorf("placement %v", p)
				}
				policy.mu.Lock()
				defer policy.mu.Unlock()
				if n := len(policy.proposed); n < 2 || n > 3 {
					t.Errorf("proposed %v", policy.proposed)
				}
				slices.Sort(policy.proposed)
				if len(slices.Compact(slices.Clone(policy.proposed))) != len(policy.proposed) {
					t.Errorf("proposed again what had lost: %v", policy.proposed)
				}
				if n := sent.Load(); n != 1 {
					t.Errorf("the store was asked %d times for what it had refused once", n)
				}
			}, memstore.LoseEvents(hidden), memstore.DropReplies(counted))
		})
	}
}
