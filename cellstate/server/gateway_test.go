package server

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// rounds is a gateway whose assign loop the test plays: n1 and n2 have a member each of the
// gang g, n3 has nothing; all have sessions.
type rounds struct {
	*testing.T
	gateway *gateway
	last    *cellstate.Snapshot
	now     time.Time // long after the first message, until the test says otherwise
}

// begun is when the first message was sent.
var begun = time.Unix(1e9, 0)

func playRounds(t *testing.T) *rounds {
	t.Helper()
	g := newGateway(New(Config{Cell: "test"}))
	gang := celltest.Job{Name: "g", Kind: "ml", Gang: true, Count: 2}
	changes := []cellstate.Change{{Key: "jobs/default/g", Value: &ohmv1.Job{Spec: gang.Proto(), Version: 1}, Revision: 1}}
	for i, name := range []cellstate.NodeName{"n1", "n2", "n3"} {
		s := &session{node: name, id: "session", ctx: t.Context(), out: make(chan *ohmv1.ServerMessage, outbox)}
		s.alive.Store(1)
		s.ready.Store(true)
		g.sessions[name] = s
		changes = append(changes,
			cellstate.Change{Key: cellstate.NodeKey(name), Value: &ohmv1.Node{Name: string(name)}, Revision: 1},
			cellstate.Change{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: string(name), Session: "session"}, Revision: 1})
		if i < 2 {
			changes = append(changes, placed(member(i), string(name)))
		}
	}
	first, err := cellstate.NewSnapshot(1, changes, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &rounds{t, g, first, begun.Add(time.Hour)}
	g.round(first, nil, begun)
	for _, name := range []cellstate.NodeName{"n1", "n2", "n3"} {
		if r.message(name).GetComplete() == nil {
			t.Fatalf("%s was not told its state", name)
		}
	}
	return r
}

func member(i int) cellstate.Slot {
	return cellstate.Slot{Namespace: "default", Job: "g", Group: "main", Index: i, Version: 1}
}

func ofJob(name string) cellstate.Slot {
	return cellstate.Slot{Namespace: "default", Job: name, Group: "main", Version: 1}
}

func placed(slot cellstate.Slot, node string) cellstate.Change {
	return cellstate.Change{Key: slot.PlacementKey(), Revision: 1, Value: &ohmv1.Placement{Slot: slot.Proto(), Attempt: 1, Node: node, Txn: "T1"}}
}

// happens plays a round after some changes. It returns the nodes that were looked at.
func (r *rounds) happens(changes ...cellstate.Change) []cellstate.NodeName {
	r.Helper()
	at := r.last.Revision() + 1
	for i := range changes {
		changes[i].Revision = at
	}
	next, _, err := r.last.Apply(cellstate.Batch{Revision: at, Changes: changes})
	if err != nil {
		r.Fatal(err)
	}
	var names []cellstate.NodeName
	for _, l := range r.gateway.looks(next, r.last) {
		names = append(names, l.row.Name)
	}
	r.gateway.round(next, r.last, r.now)
	r.last = next
	slices.Sort(names)
	return slices.Compact(names)
}

// message is what waits to be sent to the node; nil: nothing.
func (r *rounds) message(node cellstate.NodeName) *ohmv1.ServerMessage {
	select {
	case m := <-r.gateway.sessions[node].out:
		return m
	default:
		return nil
	}
}

// A round looks at nodes that changed and at those with gangs, of which a member may have
// failed on another node; and at all when nodes come or go.
func TestRoundLooksAtWhatChanged(t *testing.T) {
	r := playRounds(t)
	if got := r.happens(placed(ofJob("x"), "n3")); !slices.Equal(got, []cellstate.NodeName{"n1", "n2", "n3"}) {
		t.Errorf("looked at %v", got)
	}
	if m := r.message("n3").GetIncremental(); len(m.GetAssignments()) != 1 || r.message("n1") != nil {
		t.Errorf("n3 was told %v", m)
	}
	r.gateway.joint = map[cellstate.NodeName]bool{}
	if got := r.happens(cellstate.Change{Key: cellstate.IntentKey("n1"), Value: &ohmv1.Intent{Node: "n1"}}); !slices.Equal(got, []cellstate.NodeName{"n1"}) {
		t.Errorf("looked at %v", got)
	}
	r.gateway.sessions["n2"].ready.Store(false)
	if got := r.happens(cellstate.Change{Key: cellstate.NodeKey("n4"), Value: &ohmv1.Node{Name: "n4"}}); !slices.Equal(got, []cellstate.NodeName{"n1", "n3"}) {
		t.Errorf("looked at %v", got)
	}
}

func TestGangMemberFailsElsewhere(t *testing.T) {
	r := playRounds(t)
	failed := &ohmv1.Status{Slot: member(1).Proto(), Attempt: 1, State: task.Failed, Cause: task.Exited, ExitCode: 1}
	r.happens(
		cellstate.Change{Key: member(1).PlacementKey(), Deleted: true},
		cellstate.Change{Key: member(1).EndedKey(1), Value: &ohmv1.Ended{Placement: &ohmv1.Placement{Slot: member(1).Proto(), Attempt: 1, Node: "n2", Txn: "T1"}, Status: failed}})
	m := r.message("n1").GetIncremental()
	if len(m.GetAssignments()) != 1 || m.GetAssignments()[0].GetStopCause() != task.Stop || len(m.GetRemoved()) != 0 {
		t.Errorf("n1 was told %v", m)
	}
	if m := r.message("n2").GetIncremental(); len(m.GetRemoved()) != 1 {
		t.Errorf("n2 was told %v", m)
	}
}

// A placement whose record is written again keeps its id: it is not gone.
func TestRecordWrittenAgain(t *testing.T) {
	r := playRounds(t)
	again := placed(member(0), "n1")
	again.Value.(*ohmv1.Placement).EvictedBy = "T2"
	r.happens(again)
	m := r.message("n1").GetIncremental()
	if len(m.GetAssignments()) != 1 || m.GetAssignments()[0].GetStopCause() != task.Preempted || len(m.GetRemoved()) != 0 {
		t.Errorf("n1 was told %v", m)
	}
	same := again
	same.Value = proto.CloneOf(again.Value.(*ohmv1.Placement))
	r.happens(same)
	if m := r.message("n1"); m != nil {
		t.Errorf("n1 was told again: %v", m)
	}
}

// What finds no room in the outbox is told later, once and whole.
func TestOutboxIsFull(t *testing.T) {
	r := playRounds(t)
	s := r.gateway.sessions["n3"]
	for range outbox {
		s.out <- &ohmv1.ServerMessage{}
	}
	r.happens(placed(ofJob("x"), "n3"))
	r.happens(placed(ofJob("y"), "n3"))
	if !s.behind.Load() {
		t.Fatal("nobody knows that it is behind")
	}
	for range outbox {
		<-s.out
	}
	r.gateway.round(r.last, nil, r.now) // as the session asks for when there is room
	if m := r.message("n3").GetIncremental(); len(m.GetAssignments()) != 2 || m.GetFromRevision() != 1 {
		t.Errorf("n3 was told %v", m)
	}
}

// What has gone is told with the next assignment, or after a while by itself, once.
func TestRemovalsWaitForCompany(t *testing.T) {
	r := playRounds(t)
	r.happens(placed(ofJob("x"), "n3"), placed(ofJob("y"), "n3"), placed(ofJob("z"), "n3"))
	if m := r.message("n3").GetIncremental(); len(m.GetAssignments()) != 3 {
		t.Fatalf("n3 was told %v", m)
	}
	gone := func(job string) cellstate.Change {
		return cellstate.Change{Key: ofJob(job).PlacementKey(), Deleted: true}
	}
	nothing := func() {
		t.Helper()
		if m := r.message("n3"); m != nil {
			t.Fatalf("n3 was told %v", m)
		}
	}
	r.happens(gone("x"))
	nothing()
	r.now = r.now.Add(company - 1)
	r.happens()
	nothing()
	r.happens(placed(ofJob("a"), "n3"))
	first := r.message("n3").GetIncremental()
	if len(first.GetAssignments()) != 1 || len(first.GetRemoved()) != 1 {
		t.Fatalf("n3 was told %v", first)
	}
	r.happens(gone("y"))
	r.happens(gone("z"))
	nothing()
	r.now = r.now.Add(company)
	r.gateway.round(r.last, r.last, r.now) // though nothing has changed
	m := r.message("n3").GetIncremental()
	if len(m.GetAssignments()) != 0 || len(m.GetRemoved()) != 2 || m.GetFromRevision() != first.GetRevision() || m.GetRevision() != int64(r.last.Revision()) {
		t.Fatalf("n3 was told %v", m)
	}
	r.now = r.now.Add(time.Hour)
	r.happens()
	nothing()
	r.happens(gone("a")) // nothing was said of late
	if m := r.message("n3").GetIncremental(); len(m.GetRemoved()) != 1 || len(r.gateway.late) != 0 {
		t.Fatalf("n3 was told %v, late are %v", m, r.gateway.late)
	}
}

// Of a node that was told of the round before only what has moved is looked at: jobs that
// were stopped or changed, the node's own records, gangs.
func TestRoundNoticesWhatMoved(t *testing.T) {
	job := func(version int64, stopped bool) cellstate.Change {
		spec := celltest.Job{Name: "x", Kind: "batch", Count: 1}
		return cellstate.Change{Key: "jobs/default/x", Value: &ohmv1.Job{Spec: spec.Proto(), Version: version, Stopped: stopped}}
	}
	for name, c := range map[string]struct {
		change cellstate.Change
		want   string
	}{
		"stopped":     {job(1, true), task.Stop},
		"changed":     {job(2, false), task.Stop},
		"drained":     {cellstate.Change{Key: cellstate.IntentKey("n3"), Value: &ohmv1.Intent{Node: "n3", Drain: true}}, task.Drained},
		"job removed": {cellstate.Change{Key: "jobs/default/x", Deleted: true}, task.Stop},
	} {
		t.Run(name, func(t *testing.T) {
			r := playRounds(t)
			r.happens(job(1, false), placed(ofJob("x"), "n3"))
			r.message("n3")
			r.happens(placed(ofJob("y"), "n3")) // of a job without a record
			if m := r.message("n3").GetIncremental(); len(m.GetAssignments()) != 1 {
				t.Fatalf("n3 was told %v", m)
			}
			r.happens(c.change)
			m := r.message("n3").GetIncremental()
			if len(m.GetAssignments()) == 0 || m.GetAssignments()[0].GetStopCause() != c.want {
				t.Errorf("n3 was told %v", m)
			}
		})
	}
}
