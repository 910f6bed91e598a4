package place_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/place/placetest"
)

// Where room is reserved a choice and the commit agree about who may pass, at any time: a
// policy that remembers what was so before claims a node exactly if Validate lets it.
func TestReservedRoomAgreesWithValidate(t *testing.T) {
	rapid.Check(t, func(d *rapid.T) {
		draw := func(what string, from, to int) int { return rapid.IntRange(from, to).Draw(d, what) }
		began := time.Unix(1000, 0)
		cell := celltest.New(d, memstore.New())
		names := []cellstate.NodeName{"n1", "n2"}
		for _, n := range names {
			cell.Node(celltest.Node{Name: string(n), CPU: 4000, GPUs: 2, Model: "T4"})
			cell.Put(cellstate.Record{Key: cellstate.AliveKey(n), Value: &ohmv1.Alive{Node: string(n)}})
		}
		on := func() cellstate.NodeName { return rapid.SampledFrom(names).Draw(d, "node") }
		cell.Job(celltest.Job{Name: "runs", Count: 3, CPU: 1000})
		for i := range draw("running", 0, 3) {
			s := cell.Snapshot()
			c := celltest.Claim(s, celltest.Slot(s, celltest.Name("runs"), "main", i), on())
			if ends := draw("ends", 0, 6); ends > 0 {
				c.Ends = began.Add(time.Duration(ends) * time.Minute)
			}
			cell.Commit(s, celltest.Txn(s, cellstate.Incremental, c))
		}
		for i := range draw("reservations", 1, 3) {
			job := fmt.Sprintf("large%d", i)
			cell.Job(celltest.Job{Name: job, CPU: int64(1000 * draw("large", 1, 4)), GPUs: draw("large gpus", 0, 1), Precedence: 100 * draw("precedence", 0, 1)})
			s := cell.Snapshot()
			r := cellstate.Reservation{}
			if starts := draw("starts", 0, 6); starts > 0 {
				r.Starts = began.Add(time.Duration(starts) * time.Minute)
			}
			w, conflicts := cellstate.PlanReservation(s, began, celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, celltest.Name(job), "main", 0), on())), r)
			if len(conflicts) == 0 {
				cell.Write(w)
			}
		}
		jobs := []string{"large0", "small1", "small2"}
		for _, name := range jobs[1:] {
			cell.Job(celltest.Job{
				Name: name, CPU: int64(500 * draw("small", 1, 4)), GPUs: draw("small gpus", 0, 2), Precedence: 50 * draw("its precedence", 0, 3),
				MaxRuntime: time.Duration(draw("runs", 0, 6)) * time.Minute,
			})
		}
		s := cell.Snapshot()
		policy := batch.New()
		for now := began; now.Before(began.Add(8 * time.Minute)); now = now.Add(time.Minute) {
			for _, name := range jobs {
				work := placetest.Work(s, name)
				out, err := policy.Schedule(t.Context(), schedulers.Input{Snapshot: s, Now: now, Work: work})
				if err != nil {
					d.Fatal(err)
				}
				job := s.Job(celltest.Name(name))
				fits := false
				for n := range s.Nodes() {
					for _, device := range n.Facts.GetGpus() { // any will do
						c := celltest.Claim(s, celltest.Slot(s, job.Name, "main", 0), n.Name)
						if len(c.GPUs) == 1 {
							c.GPUs[0] = &ohmv1.DeviceShare{Id: device.GetId(), Milli: 1000}
						}
						fits = fits || valid(s, c, now)
					}
				}
				switch claimed := len(out.Txns) == 1; {
				case claimed != fits:
					d.Fatalf("after %v: %s is claimed: %v; it fits: %v (%v)", now.Sub(began), name, claimed, fits, out.Unplaced)
				case claimed && !valid(s, out.Txns[0].Claims[0], now):
					d.Fatalf("after %v: %s is claimed on %s, where it does not fit", now.Sub(began), name, out.Txns[0].Claims[0].Node)
				}
			}
		}
	})
}

// valid says whether a claim of that time fits.
func valid(s *cellstate.Snapshot, c cellstate.Claim, now time.Time) bool {
	if runs := schedulers.Runs(s.Job(c.Slot.JobName())); runs > 0 {
		c.Ends = now.Add(runs)
	}
	fit, _ := cellstate.Validate(s, celltest.Txn(s, cellstate.Incremental, c))
	return len(fit) == 1
}
