package schedulers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// agents stops what is to stop, each task some time after it could have known, and
// releases what stands on a node without a session, as the keeper does.
func agents(cell *schedtest.Cell, m *mirror.Mirror) func(context.Context) error {
	chance := rand.New(rand.NewPCG(17, 17))
	return func(ctx context.Context) error {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			var writes []cellstate.Write
			s := m.Snapshot()
			for n := range s.Nodes() {
				for _, p := range n.Placements() {
					j := s.Job(p.Slot.JobName())
					cause := reconcile.StopCause(j, p, n)
					if n.Alive == nil {
						cause = task.NodeLost
					}
					if cause != "" && chance.IntN(5) == 0 {
						last := celltest.StatusOf(p, task.Stopped)
						last.Cause = cause
						writes = append(writes, cellstate.Write{Records: cellstate.ReleaseRecords(j.Task(p.Slot), last)})
					}
				}
			}
			if len(writes) > 0 {
				out, err := cell.Store.Commit(ctx, writes...)
				if err == nil {
					_, err = m.WaitSnapshot(ctx, out.Revision)
				}
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// Field case 17: a service is updated and scaled, up, down and up again, each time before
// the update before is through, and a node dies meanwhile; two processes both take the
// job for theirs. No revision shows two live tasks of one index, of one version or of two.
func TestCase17AnIndexIsLiveOnce(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		for i := range 6 {
			cell.Up(celltest.Node{Name: fmt.Sprintf("n%d", i), CPU: 4000})
		}
		one := cell.Run("service", "a", schedtest.Takes{Policy: schedtest.FirstFit{}, Time: 2 * time.Millisecond})
		cell.Run("service", "a", schedtest.Takes{Policy: schedtest.FirstFit{}, Time: 3 * time.Millisecond}) // under the same name
		cell.Until("they are there", func(s *cellstate.Snapshot) bool { return s.Scheduler("service") != nil && one.Mirror.Snapshot() != nil })
		defer together(t, agents(cell, one.Mirror))()
		live := func(s *cellstate.Snapshot, version int64) (n int) {
			if row := s.Job(celltest.Name("web")); row != nil {
				for _, t := range row.Tasks {
					if t.Placement != nil && t.Slot.Version == version {
						n++
					}
				}
			}
			return n
		}
		submit := func(count int, cpu int64) {
			cell.Submit(celltest.Job{Name: "web", Kind: "service", Count: count, CPU: cpu})
		}
		submit(10, 1000)
		cell.Until("ten run", func(s *cellstate.Snapshot) bool { return live(s, 1) == 10 })
		submit(12, 1010)
		cell.Until("some are of version 2", func(s *cellstate.Snapshot) bool { return live(s, 2) >= 3 })
		submit(16, 1010)
		cell.Until("some are of version 3", func(s *cellstate.Snapshot) bool { return live(s, 3) >= 5 })
		cell.Put(cellstate.Record{Key: cellstate.AliveKey("n0"), Read: cell.Snapshot().Node("n0").AliveRevision})
		submit(8, 1020)
		cell.Until("some are of version 4", func(s *cellstate.Snapshot) bool { return live(s, 4) >= 3 })
		submit(15, 1000)
		s := cell.Until("fifteen of version 5 run, and nothing else", func(s *cellstate.Snapshot) bool {
			n := 0
			for row := range s.Nodes() {
				n += len(row.Placements())
			}
			return live(s, 5) == 15 && n == 15
		})
		if n := s.Node("n0"); len(n.Placements()) > 0 {
			t.Errorf("on the dead node are %v", n.Placements())
		}
		revisions := 0
		history(t, cell, func(s *cellstate.Snapshot) {
			revisions++
			seen := map[int]cellstate.Slot{}
			row := s.Job(celltest.Name("web"))
			if row == nil {
				return
			}
			for _, task := range row.Tasks {
				if task.Placement == nil {
					continue
				}
				if other, twice := seen[task.Slot.Index]; twice {
					t.Errorf("revision %d: %v and %v are live", s.Revision(), other, task.Slot)
				}
				seen[task.Slot.Index] = task.Slot
			}
		})
		t.Logf("%d revisions, %d conflicts", revisions, len(conflicts(s, "service")))
		if len(conflicts(s, "service")) == 0 {
			t.Error("the two never met")
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// history shows the cell at every revision.
func history(t *testing.T, cell *schedtest.Cell, see func(*cellstate.Snapshot)) {
	t.Helper()
	s, present, err := cell.Store.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range cell.Store.Changes(t.Context(), s.Revision()) {
		if err != nil {
			t.Fatal(err)
		}
		for changes := batch.Changes; len(changes) > 0; {
			n := 1
			for n < len(changes) && changes[n].Revision == changes[0].Revision {
				n++
			}
			if s, _, err = s.Apply(cellstate.Batch{Revision: changes[0].Revision, Changes: changes[:n]}); err != nil {
				t.Fatal(err)
			}
			see(s)
			changes = changes[n:]
		}
		if batch.Revision >= present {
			return
		}
	}
}
