package celltest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TB is what a Cell needs of a test; *testing.T, *testing.B and *rapid.T have it.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ TB = testing.TB(nil)

// Cell writes the state of a cell into a store, as the server and the agents would.
// What does not apply ends the test.
type Cell struct {
	t     TB
	store cellstate.Store
}

// New is a cell in a store.
func New(t TB, store cellstate.Store) *Cell { return &Cell{t, store} }

// Snapshot loads the present state.
func (c *Cell) Snapshot() *cellstate.Snapshot {
	c.t.Helper()
	s, err := c.store.Load(context.Background())
	if err != nil {
		c.t.Fatalf("load: %v", err)
	}
	return s
}

// Write commits one write, which must apply, and returns its revision.
func (c *Cell) Write(w cellstate.Write) cellstate.Revision {
	c.t.Helper()
	out, err := c.store.Commit(context.Background(), w)
	if err != nil {
		c.t.Fatalf("commit: %v", err)
	}
	if out.Applied[0] == 0 {
		c.t.Fatalf("a write did not apply: %v", w)
	}
	return out.Applied[0]
}

// Put writes records, each of which must be as it was read.
func (c *Cell) Put(records ...cellstate.Record) cellstate.Revision {
	c.t.Helper()
	return c.Write(cellstate.Write{Records: records})
}

// Node writes the agent's facts about a node, new or changed.
func (c *Cell) Node(n Node) cellstate.Revision {
	c.t.Helper()
	name := cellstate.NodeName(n.Name)
	row := c.Snapshot().Node(name)
	rec := cellstate.Record{Key: cellstate.NodeKey(name), Value: n.Proto()}
	if row != nil {
		rec.Read = row.FactsRevision
	}
	return c.Write(cellstate.NodeWrite(name, row, rec))
}

// Intent writes the operator's wishes for a node.
func (c *Cell) Intent(i *ohmv1.Intent) cellstate.Revision {
	c.t.Helper()
	name := cellstate.NodeName(i.GetNode())
	row := c.Snapshot().Node(name)
	rec := cellstate.Record{Key: cellstate.IntentKey(name), Value: proto.CloneOf(i)}
	if row != nil {
		rec.Read = row.IntentRevision
	}
	return c.Write(cellstate.NodeWrite(name, row, rec))
}

// Hold writes a hold on a node.
func (c *Cell) Hold(h *ohmv1.Hold) cellstate.Revision {
	c.t.Helper()
	name := cellstate.NodeName(h.GetNode())
	rec := cellstate.Record{Key: cellstate.HoldKey(name, cellstate.TxnID(h.GetTxn())), Value: proto.CloneOf(h)}
	return c.Write(cellstate.NodeWrite(name, c.Snapshot().Node(name), rec))
}

// Job submits a job, or a new version of it, and returns its name.
func (c *Cell) Job(j Job) cellstate.JobName {
	c.t.Helper()
	record := &ohmv1.Job{Spec: j.Proto(), Version: 1}
	name := cellstate.JobNameOf(record.GetSpec())
	rec := cellstate.Record{Key: cellstate.JobKey(name), Value: record}
	now := c.Snapshot()
	var was *ohmv1.JobSpec
	if row := now.Job(name); row != nil {
		record.Version = row.Record.GetVersion() + 1
		rec.Read, was = row.Revision, row.Record.GetSpec()
	}
	recs := []cellstate.Record{rec}
	if cellstate.Barred(was, record.GetSpec()) {
		recs = append(recs, cellstate.Barrier(now, name.String()))
	}
	c.Put(recs...)
	return name
}

// Mark rewrites a job's record: stopped, done, or anything else.
func (c *Cell) Mark(name cellstate.JobName, change func(*ohmv1.Job)) cellstate.Revision {
	c.t.Helper()
	row := c.Snapshot().Job(name)
	record := proto.CloneOf(row.Record)
	change(record)
	return c.Put(cellstate.Record{Key: cellstate.JobKey(name), Value: record, Read: row.Revision})
}

// Place commits a claim for task index of a job's group main on a node, alone in its
// transaction, and returns the placement.
func (c *Cell) Place(job string, index int, node string) *cellstate.Placement {
	c.t.Helper()
	s := c.Snapshot()
	slot := Slot(s, Name(job), "main", index)
	c.Commit(s, Txn(s, cellstate.Incremental, Claim(s, slot, cellstate.NodeName(node))))
	return c.Snapshot().Job(slot.JobName()).Task(slot).Placement
}

// Commit commits transactions as planned on s, whole, and returns the revision.
func (c *Cell) Commit(s *cellstate.Snapshot, txns ...*cellstate.Txn) cellstate.Revision {
	c.t.Helper()
	plan := cellstate.MakePlan(s, time.Now(), 1000, txns, func(cellstate.ClaimRef) bool { return false })
	for i, conflicts := range plan.Conflicts {
		if len(conflicts) > 0 {
			c.t.Fatalf("transaction %d does not fit: %+v", i, conflicts)
		}
	}
	out, err := c.store.Commit(context.Background(), plan.Writes...)
	if err != nil {
		c.t.Fatalf("commit: %v", err)
	}
	for i, at := range out.Applied {
		if at == 0 {
			c.t.Fatalf("write %d did not apply: %v", i, plan.Writes[i])
		}
	}
	return out.Revision
}

// Status reports a state of a slot's live attempt, as its agent would.
func (c *Cell) Status(slot cellstate.Slot, state task.State) cellstate.Revision {
	c.t.Helper()
	t := c.Snapshot().Job(slot.JobName()).Task(slot)
	return c.Write(cellstate.Write{
		Guards:  []cellstate.Guard{{Key: slot.PlacementKey(), Revision: t.Placement.Revision}},
		Records: []cellstate.Record{{Key: slot.StatusKey(), Value: StatusOf(t.Placement, state), Read: t.StatusRevision}},
	})
}

// StatusOf is a status of a placement's attempt; an end state has the cause Exited.
func StatusOf(p *cellstate.Placement, state task.State) *ohmv1.Status {
	status := &ohmv1.Status{Slot: p.GetSlot(), Attempt: p.GetAttempt(), Txn: p.GetTxn(), Node: p.GetNode(), State: state}
	if task.Ended(state) {
		status.Cause = task.Exited
	}
	return status
}

// Release ends a slot's live attempt.
func (c *Cell) Release(slot cellstate.Slot, state task.State) cellstate.Revision {
	c.t.Helper()
	t := c.Snapshot().Job(slot.JobName()).Task(slot)
	return c.Put(cellstate.ReleaseRecords(t, StatusOf(t.Placement, state))...)
}

// End ends a slot's live attempt with a cause of pkg/task.
func (c *Cell) End(slot cellstate.Slot, cause string) cellstate.Revision {
	c.t.Helper()
	t := c.Snapshot().Job(slot.JobName()).Task(slot)
	status := StatusOf(t.Placement, task.EndState(cause, 0))
	status.Cause = cause
	return c.Put(cellstate.ReleaseRecords(t, status)...)
}
