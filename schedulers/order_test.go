package schedulers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// TestOrder: whatever becomes of entries, a walk yields those that are active, each once, the
// most urgent first, as far as it goes.
func TestOrder(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 3))
	q := newQueue(reconcile.Limits{}, 0)
	job := &cellstate.Job{}
	var all []*entry
	for step := range 5000 {
		if chance.IntN(4) == 0 {
			e := &entry{queue: q, name: cellstate.JobName{Name: fmt.Sprint(step)}, precedence: int32(chance.IntN(3)), submitted: int64(step), owned: true, job: job, needs: make([]reconcile.Need, 1)}
			all = append(all, e)
			q.order.add(e)
			continue
		}
		if len(all) == 0 {
			continue
		}
		e := all[chance.IntN(len(all))]
		switch chance.IntN(5) {
		case 0:
			e.needs = nil // placed
		case 1:
			e.needs = make([]reconcile.Need, 1)
			q.order.add(e)
		case 2:
			q.order.moved(e)
			e.precedence, e.submitted = int32(chance.IntN(3)), int64(step)
		default:
			var want, got []*entry
			for _, e := range all {
				if e.active() {
					want = append(want, e)
				}
			}
			slices.SortFunc(want, byUrgency)
			most := chance.IntN(len(all) + 1)
			for e := range q.order.walk {
				if got = append(got, e); len(got) >= most {
					break
				}
			}
			if want = want[:min(max(most, 1), len(want))]; !slices.Equal(got, want) {
				t.Fatalf("step %d: got %d entries, want %d, or in another order", step, len(got), len(want))
			}
		}
	}
}
