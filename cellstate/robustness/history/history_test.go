package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// story is a short sound history on two nodes of 4 CPUs that tests spoil.
type story struct {
	truth *Truth
	ops   []*Op
}

// deedOf is a deed on slot i of job a.
func deedOf(v Verb, i int, txn, node string) Deed {
	return Deed{Verb: v, Slot: fmt.Sprintf("default/a/main/%d@1", i), Txn: txn, Node: node, Attempt: 1, CPU: 2000}
}

// newStory begins with empty nodes at revision 10, at time 100.
func newStory() *story {
	rooms := map[string]room{"n1": {4000, 0}, "n2": {4000, 0}}
	return &story{truth: &Truth{epochs: []*epoch{{begin: 100, base: &Read{Revision: 10}, capacity: rooms, happened: map[string]happening{}}}}}
}

// happens puts a deed into the last epoch.
func (s *story) happens(at cellstate.Revision, seen int64, d Deed) {
	e := s.truth.epochs[len(s.truth.epochs)-1]
	e.happened[d.name()] = happening{d, at, seen}
	e.order = append(e.order, d.name())
}

// op is an operation of one write.
func (s *story) op(begin, end int64, fate Fate, at cellstate.Revision, deeds ...Deed) *Op {
	op := &Op{ID: fmt.Sprintf("c/%d", len(s.ops)), Begin: begin, End: end, Writes: []Write{deeds}, Fate: fate, Applied: []cellstate.Revision{at}}
	s.ops = append(s.ops, op)
	return op
}

// applied is an operation that was applied, and said so.
func (s *story) applied(begin, end int64, at cellstate.Revision, deeds ...Deed) {
	s.op(begin, end, Done, at, deeds...)
	for _, d := range deeds {
		s.happens(at, end, d)
	}
}

func (s *story) read(begin, end int64, at cellstate.Revision, live ...Deed) {
	s.ops = append(s.ops, &Op{ID: fmt.Sprintf("r/%d", len(s.ops)), Begin: begin, End: end, Fate: Done, Read: &Read{at, live}})
}

func sound() *story {
	s := newStory()
	s.applied(200, 210, 11, deedOf(Claim, 0, "t1", "n1"), deedOf(Claim, 1, "t1", "n2"))
	s.op(200, 220, Done, 0, deedOf(Claim, 0, "t2", "n1")) // it lost
	s.read(230, 240, 12, deedOf(Claim, 0, "t1", "n1"), deedOf(Claim, 1, "t1", "n2"))
	s.op(250, 300, Unknown, 0, deedOf(Claim, 2, "t3", "n1")) // it was applied
	s.happens(13, 260, deedOf(Claim, 2, "t3", "n1"))
	s.op(250, 0, Open, 0, deedOf(Claim, 3, "t4", "n1")) // it was not
	s.applied(310, 320, 14, deedOf(Release, 0, "t1", "n1"))
	again := deedOf(Claim, 0, "t5", "n1")
	again.Attempt = 2
	s.applied(330, 340, 15, again)
	s.read(350, 360, 15, again, deedOf(Claim, 2, "t3", "n1"), deedOf(Claim, 1, "t1", "n2"))
	return s
}

// TestJudge: a sound history passes, and each spoilt one is found for what it is.
func TestJudge(t *testing.T) {
	evictor := deedOf(Claim, 4, "t6", "n1")
	evictor.Evicts = true
	victim := deedOf(Evict, 0, "t5", "n1")
	victim.By = "t6"
	for name, c := range map[string]struct {
		spoil func(*story)
		want  []string // prefixes, each of a violation
	}{
		"sound": {func(*story) {}, nil},
		"an eviction whose victim is still there": {func(s *story) {
			s.applied(400, 410, 16, victim, evictor)
		}, nil},
		"a claim beyond the room": {func(s *story) {
			s.applied(400, 410, 16, deedOf(Claim, 4, "t6", "n1"))
		}, []string{"L1: node n1"}},
		"an eviction that counts its victim as gone": {func(s *story) {
			s.applied(400, 410, 16, victim, evictor, deedOf(Claim, 5, "t6", "n1"))
		}, []string{"L1: node n1"}},
		"a slot taken twice, on two nodes": {func(s *story) {
			d := deedOf(Claim, 2, "t6", "n2")
			d.Attempt = 2
			s.applied(400, 410, 16, d)
		}, []string{"L2: slot default/a/main/2@1"}},
		"an attempt used twice": {func(s *story) {
			s.applied(400, 410, 16, deedOf(Release, 1, "t1", "n2"))
			s.applied(420, 430, 17, deedOf(Claim, 1, "t6", "n2"))
		}, []string{"L2: slot default/a/main/1@1"}},
		"a release of what another transaction placed": {func(s *story) {
			s.applied(400, 410, 16, deedOf(Release, 1, "t9", "n2"))
		}, []string{"L1: node n2", "L2: slot default/a/main/1@1"}},
		"a reply to what never happened": {func(s *story) {
			s.op(400, 410, Done, 16, deedOf(Claim, 6, "t6", "n2"))
		}, []string{"L6: c/"}},
		"a reply with another revision": {func(s *story) {
			s.op(400, 410, Done, 17, deedOf(Claim, 6, "t6", "n2"))
			s.happens(16, 405, deedOf(Claim, 6, "t6", "n2"))
		}, []string{"L6: c/", "L6: claim"}},
		"applied, and called refused": {func(s *story) {
			s.op(400, 410, Done, 0, deedOf(Claim, 6, "t6", "n2"))
			s.happens(16, 405, deedOf(Claim, 6, "t6", "n2"))
		}, []string{"L6: claim default/a/main/6@1"}},
		"applied, and said to be never": {func(s *story) {
			s.op(400, 410, Nothing, 0, deedOf(Claim, 6, "t6", "n2"))
			s.happens(16, 405, deedOf(Claim, 6, "t6", "n2"))
		}, []string{"L6: claim default/a/main/6@1"}},
		"applied before it was asked for": {func(s *story) {
			s.op(400, 410, Unknown, 0, deedOf(Claim, 6, "t6", "n2"))
			s.happens(16, 390, deedOf(Claim, 6, "t6", "n2"))
		}, []string{"L6: claim default/a/main/6@1"}},
		"asked for by nobody": {func(s *story) {
			s.happens(16, 390, deedOf(Claim, 6, "t6", "n2"))
		}, []string{"L6: claim default/a/main/6@1"}},
		"a stale read": {func(s *story) {
			s.read(400, 410, 12, deedOf(Claim, 0, "t1", "n1"), deedOf(Claim, 1, "t1", "n2"))
		}, []string{"L1: node n1"}},
		"a read without a task that is there": {func(s *story) {
			s.read(400, 410, 15, deedOf(Claim, 1, "t1", "n2"))
		}, []string{"L1: node n1", "L2: slot default/a/main/0@1", "L2: slot default/a/main/2@1"}},
		"a revision that came before one that had been answered": {func(s *story) {
			s.applied(400, 410, 14, deedOf(Release, 1, "t1", "n2"))
			s.read(420, 430, 15)
		}, []string{"L1: node n1", "L2: slot"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := sound()
			c.spoil(s)
			v := Judge(s.ops, s.truth, time.Minute)
			if len(c.want) == 0 && len(v.Violations) > 0 || v.Operations == 0 {
				t.Errorf("%d operations, violations %v", v.Operations, v.Violations)
			}
			for _, want := range c.want {
				if !slices.ContainsFunc(v.Violations, func(v Violation) bool { return strings.HasPrefix(v.String(), want) }) {
					t.Errorf("none of %v begins with %q", v.Violations, want)
				}
			}
		})
	}
}

// TestRestore: what was applied after the save is gone, revisions come again, and the same
// release can happen in each life of the store.
func TestRestore(t *testing.T) {
	restored := func() *story {
		s := sound()
		s.truth.epochs = append(s.truth.epochs, &epoch{begin: 1000, base: &Read{12, []Deed{deedOf(Claim, 0, "t1", "n1"), deedOf(Claim, 1, "t1", "n2")}},
			capacity: s.truth.epochs[0].capacity, happened: map[string]happening{}})
		s.applied(1010, 1020, 13, deedOf(Release, 0, "t1", "n1"))
		s.read(1030, 1040, 13, deedOf(Claim, 1, "t1", "n2"))
		return s
	}
	if s := restored(); len(Judge(s.ops, s.truth, time.Minute).Violations) > 0 {
		t.Error(Judge(s.ops, s.truth, time.Minute).Violations)
	}
	s := restored()
	s.read(1050, 1060, 15, deedOf(Claim, 2, "t3", "n1"), deedOf(Claim, 1, "t1", "n2"))
	if v := Judge(s.ops, s.truth, time.Minute).Violations; len(v) == 0 {
		t.Error("a read of what was before the restore passed")
	}
}

// failing is a store whose commits end with an error after they were applied, or not.
type failing struct {
	cellstate.Store
	err error
}

func (f failing) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	if f.err != nil {
		return cellstate.Outcome{}, f.err
	}
	return f.Store.Commit(ctx, writes...)
}

// TestRecorder: what is written down is what was asked and said, also of a process that
// died in the middle of a line.
func TestRecorder(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	cell.Node(celltest.Node{Name: "n1"})
	cell.Job(celltest.Job{Name: "a", Count: 2, CPU: 1000})
	truth := &Truth{}
	truth.Begin(cell.Snapshot())
	var out strings.Builder
	s := cell.Snapshot()
	txn := celltest.Txn(s, cellstate.Incremental, celltest.Claim(s, celltest.Slot(s, celltest.Name("a"), "main", 0), "n1"))
	writes := cellstate.MakePlan(s, time.Now(), 10, []*cellstate.Txn{txn}, func(cellstate.ClaimRef) bool { return false }).Writes
	for _, err := range []error{cellstate.ErrUnknown, cellstate.ErrUnreachable, nil} {
		_, got := NewRecorder(failing{store, err}, fmt.Sprint("client ", err), &out).Commit(t.Context(), writes...)
		if !errors.Is(got, err) {
			t.Errorf("the recorder said %v, the store %v", got, err)
		}
	}
	r := NewRecorder(store, "reader", &out)
	loaded, err := r.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Note(0)
	r.Note(3)
	cell.Release(celltest.Slot(s, celltest.Name("a"), "main", 0), task.Succeeded)
	ops, err := Parse(strings.NewReader(out.String() + `{"ID":"torn`))
	if err != nil || len(ops) != 5 {
		t.Fatalf("%d operations, %v", len(ops), err)
	}
	for i, want := range []Fate{Unknown, Nothing, Done, Done, Done} {
		if ops[i].Fate != want || ops[i].Begin == 0 || ops[i].End < ops[i].Begin {
			t.Errorf("operation %d: %+v, want %s", i, ops[i], want)
		}
	}
	if d := ops[2].Writes[0]; len(d) != 1 || d[0].Verb != Claim || d[0].Node != "n1" || d[0].CPU != 1000 || d[0].Txn != string(txn.ID) || ops[2].Applied[0] == 0 {
		t.Errorf("the claim is %+v at %v", d, ops[2].Applied)
	}
	if got := ops[3].Read; got.Revision != loaded.Revision() || len(got.Live) != 1 || got.Live[0].Txn != string(txn.ID) {
		t.Errorf("the read is %+v", got)
	}
	if ops[4].Conflicts != 3 {
		t.Errorf("the note is %+v", ops[4])
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for b, err := range store.Changes(ctx, s.Revision()) {
		if err != nil {
			t.Fatal(err)
		}
		truth.See(b)
		if len(truth.epochs[0].order) == 2 {
			break
		}
	}
	v := Judge(ops, truth, time.Minute)
	if len(v.Violations) != 1 || !strings.HasPrefix(v.Violations[0].Detail, "release ") { // it was not recorded
		t.Errorf("violations %v", v.Violations)
	}
}
