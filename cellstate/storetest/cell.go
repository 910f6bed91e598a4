package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/mirror"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// patience bounds every wait of a law; none comes near it.
const patience = 2 * time.Minute

// cell is the store under test with what the laws need around it.
type cell struct {
	*testing.T
	*celltest.Cell
	ctx   context.Context
	store cellstate.Store
	start *cellstate.Snapshot // before the law did anything
	// unruly says that the law itself has put there what no commit would have: its
	// history is not audited.
	unruly bool
}

func newCell(t *testing.T, store cellstate.Store) *cell {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	c := &cell{T: t, Cell: celltest.New(t, store), ctx: ctx, store: store}
	c.start = c.Snapshot()
	return c
}

// side is one scheduler's side of the cell: a mirror and its link to the store.
type side struct {
	*mirror.Mirror
	link *link
}

// side starts a mirror, which ends with the test and is up to date now.
func (c *cell) side(options ...mirror.Option) *side {
	return c.sideOver(&link{Store: c.store}, options...)
}

func (c *cell) sideOver(l *link, options ...mirror.Option) *side {
	c.Helper()
	reached := cellstate.Store(struct{ cellstate.Store }{l}) // without what the store has not
	if _, ok := c.store.(cellstate.Lister); ok {
		reached = l
	}
	s := &side{mirror.New(reached, zap.NewNop(), options...), l}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c.Cleanup(func() {
		l.release()
		cancel()
		if err := <-ended; err != nil {
			c.Errorf("mirror: %v", err)
		}
	})
	c.sync(s)
	return s
}

// sync waits until the sides have seen all that stands in the store.
func (c *cell) sync(sides ...*side) *cellstate.Snapshot {
	c.Helper()
	now := c.Snapshot()
	for _, s := range sides {
		seen, err := s.WaitSnapshot(c.ctx, now.Revision())
		if err != nil {
			c.Fatal(err)
		}
		now = seen
	}
	return now
}

// commit commits one transaction through a side.
func (c *cell) commit(s *side, txn *cellstate.Txn) cellstate.Result {
	c.Helper()
	r, err := s.Commit(c.ctx, txn)
	if err != nil {
		c.Fatalf("commit: %v", err)
	}
	return r[0]
}

// late commits a transaction through a fresh side that has seen the state before
// meanwhile and nothing of what meanwhile does until the store has answered its first
// request: only the store can refuse it.
func (c *cell) late(txn func(*cellstate.Snapshot) *cellstate.Txn, meanwhile func()) (cellstate.Result, *side) {
	c.Helper()
	s := c.side()
	decided := txn(s.Snapshot())
	s.link.hold()
	meanwhile()
	return c.commit(s, decided), s
}

// refusedOnce asserts that the store, not the mirror, refused the late request.
func (c *cell) refusedOnce(s *side) {
	c.Helper()
	if s.link.refused.Load() == 0 {
		c.Fatal("the store refused nothing")
	}
}

// committed asserts that all claims of a transaction committed.
func (c *cell) committed(r cellstate.Result) cellstate.Result {
	c.Helper()
	if len(r.Conflicts) > 0 || len(r.Committed) != len(r.Txn.Claims) || r.Revision == 0 {
		c.Fatalf("%d of %d claims committed at %d, conflicts %+v", len(r.Committed), len(r.Txn.Claims), r.Revision, r.Conflicts)
	}
	return r
}

// lost asserts that nothing committed and that the first conflict has a reason.
func (c *cell) lost(r cellstate.Result, reason cellstate.Reason) cellstate.Conflict {
	c.Helper()
	if len(r.Committed) > 0 || len(r.Conflicts) == 0 {
		c.Fatalf("committed %v, conflicts %+v; want none committed, reason %s", r.Committed, r.Conflicts, reason)
	}
	if got := r.Conflicts[0].Reason; got != reason {
		c.Fatalf("conflict %+v, want reason %s", r.Conflicts[0], reason)
	}
	return r.Conflicts[0]
}

// one is a transaction of one claim, for task index of a job's group main.
func one(job string, index int, node cellstate.NodeName) func(*cellstate.Snapshot) *cellstate.Txn {
	return func(s *cellstate.Snapshot) *cellstate.Txn {
		return celltest.Txn(s, cellstate.Incremental, claim(s, job, index, node))
	}
}

func claim(s *cellstate.Snapshot, job string, index int, node cellstate.NodeName) cellstate.Claim {
	return celltest.Claim(s, slot(s, job, index), node)
}

func slot(s *cellstate.Snapshot, job string, index int) cellstate.Slot {
	return celltest.Slot(s, celltest.Name(job), "main", index)
}

// live is the slot's live placement in the store; nil if there is none.
func (c *cell) live(s cellstate.Slot) *cellstate.Placement {
	c.Helper()
	if t := c.Snapshot().Job(s.JobName()).Task(s); t != nil {
		return t.Placement
	}
	return nil
}

// changes reads what happened after one revision up to another. It asks for progress
// all the while: the last revision may be one that nobody watched.
func (c *cell) changes(after, upTo cellstate.Revision) []cellstate.Change {
	c.Helper()
	asking, stop := context.WithCancel(c.ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.Tick(5 * time.Millisecond); asking.Err() == nil; {
			_ = c.store.Progress(asking)
			select {
			case <-tick:
			case <-asking.Done():
			}
		}
	}()
	defer func() { stop(); <-stopped }()
	var out []cellstate.Change
	for batch, err := range c.store.Changes(c.ctx, after) {
		if err != nil {
			c.Fatalf("changes after %d: %v", after, err)
		}
		out = append(out, batch.Changes...)
		if batch.Revision >= upTo {
			break
		}
	}
	return slices.DeleteFunc(out, func(ch cellstate.Change) bool { return ch.Revision > upTo })
}

// replay shows the state at every revision from the start of the law to upTo.
func (c *cell) replay(upTo cellstate.Revision, see func(*cellstate.Snapshot)) {
	c.Helper()
	s := c.start
	changes := c.changes(s.Revision(), upTo)
	for len(changes) > 0 {
		at := changes[0].Revision
		n := slices.IndexFunc(changes, func(ch cellstate.Change) bool { return ch.Revision != at })
		if n < 0 {
			n = len(changes)
		}
		next, gaps, err := s.Apply(cellstate.Batch{Revision: at, Changes: changes[:n]})
		if err != nil || len(gaps) > 0 {
			c.Fatalf("revision %d: gaps %v, error %v", at, gaps, err)
		}
		s, changes = next, changes[n:]
		see(s)
	}
}

// present writes a mark and returns its revision: the last one, at which something happened.
func (c *cell) present() cellstate.Revision {
	c.Helper()
	_, read := c.Snapshot().Meta("mark")
	return c.Put(cellstate.Record{Key: cellstate.MetaKey("mark"), Value: &ohmv1.Meta{Value: "present"}, Read: read})
}

// audit asserts that no revision of the law's history broke a promise, as far as
// the history is still there.
func (c *cell) audit() {
	c.Helper()
	if c.Failed() || c.unruly {
		return
	}
	present := c.present()
	a := audit.New(c.start)
	for batch, err := range c.store.Changes(c.ctx, c.start.Revision()) {
		if errors.Is(err, cellstate.ErrCompacted) {
			return
		}
		if err == nil {
			err = a.Observe(batch)
		}
		if err != nil {
			c.Fatalf("audit: %v", err)
		}
		if batch.Revision >= present {
			break
		}
	}
	for _, v := range a.Report().GetViolations() {
		c.Errorf("audit: %v", v)
	}
}

// eventually polls until a condition holds.
func (c *cell) eventually(what string, holds func() bool) {
	c.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			c.Fatalf("waiting until %s: %v", what, c.ctx.Err())
		}
	}
}

// refuses asserts that a write does not apply.
func (c *cell) refuses(w cellstate.Write) {
	c.Helper()
	out, err := c.store.Commit(c.ctx, w)
	if err != nil {
		c.Fatalf("commit: %v", err)
	}
	if out.Applied[0] != 0 {
		c.Fatalf("a write applied that must not: %v", w)
	}
}

func (c *cell) is(err, want error) {
	c.Helper()
	if !errors.Is(err, want) {
		c.Fatalf("error %v, want %v", err, want)
	}
}
