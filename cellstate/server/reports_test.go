package server

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// One live attempt, the second on its node, which the agent has said is running.
func TestReportWrite(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	cell.Node(celltest.Node{Name: "n1"})
	cell.Job(celltest.Job{Name: "a", Retries: 1})
	first := cell.Place("a", 0, "n1")
	cell.Release(first.Slot, task.Failed)
	live := cell.Place("a", 0, "n1")
	fresh := cell.Snapshot()
	cell.Status(live.Slot, task.Running)
	running := cell.Snapshot()

	other := celltest.StatusOf(live, task.Running)
	other.Message = "healthy"
	waits := celltest.StatusOf(live, task.Assigned)
	waits.Message = "waits until another has stopped"
	gone := celltest.StatusOf(live, task.Running)
	gone.Slot = &ohmv1.Slot{Namespace: "default", Job: "b", Group: "main", Version: 1}
	for _, c := range []struct {
		name   string
		on     *cellstate.Snapshot
		node   cellstate.NodeName
		status *ohmv1.Status
		want   string // keys that are written
	}{
		{"assigned tells nothing", fresh, "n1", celltest.StatusOf(live, task.Assigned), ""},
		{"assigned tells why it waits", fresh, "n1", waits, "status"},
		{"assigned comes late", running, "n1", waits, ""},
		{"first", fresh, "n1", celltest.StatusOf(live, task.Starting), "status"},
		{"end without a status before", fresh, "n1", celltest.StatusOf(live, task.Failed), "placement ended status"},
		{"the same", running, "n1", celltest.StatusOf(live, task.Running), ""},
		{"same state, other words", running, "n1", other, "status"},
		{"back", running, "n1", celltest.StatusOf(live, task.Starting), ""},
		{"unknown", running, "n1", celltest.StatusOf(live, task.Unknown), ""},
		{"forward", running, "n1", celltest.StatusOf(live, task.Stopping), "status"},
		{"end", running, "n1", celltest.StatusOf(live, task.Succeeded), "placement ended status"},
		{"of an earlier attempt", running, "n1", celltest.StatusOf(first, task.Stopping), ""},
		{"end of an earlier attempt", running, "n1", celltest.StatusOf(first, task.Succeeded), ""},
		{"of another node", running, "n2", celltest.StatusOf(live, task.Succeeded), ""},
		{"of no job", running, "n1", gone, ""},
		{"of nothing", running, "n1", &ohmv1.Status{State: task.Failed}, ""},
	} {
		of := attempt{cellstate.SlotOf(c.status.GetSlot()), c.status.GetTxn(), c.node}
		w, ok := reportWrite(c.on, of, c.status, time.Now())
		var keys []string
		for _, r := range w.Records {
			switch k := r.Key.Parse(); k.Kind {
			case cellstate.KindPlacement:
				keys = append(keys, "placement")
			case cellstate.KindEnded:
				keys = append(keys, "ended")
				if e := r.Value.(*ohmv1.Ended); k.Attempt != 2 || e.GetStatus().GetEnded() == nil || e.GetStatus().GetNode() != "n1" {
					t.Errorf("%s: ended %d: %v", c.name, k.Attempt, e)
				}
			case cellstate.KindStatus:
				keys = append(keys, "status")
			}
		}
		got := fmt.Sprint(keys)
		if got != fmt.Sprintf("[%s]", c.want) || ok != (c.want != "") {
			t.Errorf("%s: writes %s (%v), want [%s]", c.name, got, ok, c.want)
		}
	}
}

// A status that was judged before the release of its attempt leaves nothing behind.
func TestStatusComparesItsPlacement(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1"})
	cell.Job(celltest.Job{Name: "a"})
	p := cell.Place("a", 0, "n1")
	status := celltest.StatusOf(p, task.Running)
	w, ok := reportWrite(cell.Snapshot(), attempt{p.Slot, p.GetTxn(), "n1"}, status, time.Now())
	cell.Release(p.Slot, task.Failed)
	out, err := store.Commit(t.Context(), w)
	if !ok || err != nil || out.Applied[0] != 0 {
		t.Fatalf("a status after its attempt's end applied at %v (%v, %v)", out.Applied, ok, err)
	}
}

// Of two reports of one attempt that wait, the one that is further on stays.
func TestReportsKeepTheFurthest(t *testing.T) {
	at := func(s task.State, message string) *ohmv1.Status { return &ohmv1.Status{State: s, Message: message} }
	for _, c := range []struct {
		name        string
		waits, next *ohmv1.Status
		newer, wins bool // the next one came later; and is the one that stays
	}{
		{"further", at(task.Starting, ""), at(task.Running, ""), true, true},
		{"further, but given back", at(task.Starting, ""), at(task.Running, ""), false, true},
		{"back", at(task.Running, ""), at(task.Starting, ""), true, false},
		{"newer words", at(task.Running, "a"), at(task.Running, "b"), true, true},
		{"older words", at(task.Running, "b"), at(task.Running, "a"), false, false},
		{"a second end", at(task.Failed, "a"), at(task.Failed, "b"), true, false},
	} {
		r := newReports(nil)
		of := attempt{txn: "t"}
		r.keep(of, c.waits, true, time.Now())
		r.keep(of, c.next, c.newer, time.Now())
		want := c.waits
		if c.wins {
			want = c.next
		}
		taken, _ := r.take(time.Now())
		if got := taken[of]; !proto.Equal(got, want) {
			t.Errorf("%s: %v stays, want %v", c.name, got, want)
		}
	}
}
