// Package schedtest tests schedulers: a harness that runs them, each with a mirror of
// its own, over one store in memory, and a conformance kit for anybody's policy.
//
//	cell := schedtest.New(t)
//	cell.Up(celltest.Node{Name: "n1", CPU: 4000})
//	cell.Run("batch", "a", schedtest.FirstFit{})
//	cell.Job(celltest.Job{Name: "j", CPU: 1000})
//	cell.Until("j is placed", func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, "j") == 1 })
//
// It works inside a testing/synctest bubble, where hours pass in no time, and outside of
// one.
package schedtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// Cell is a cell in memory on which schedulers run. Celltest's verbs write its state.
type Cell struct {
	*celltest.Cell
	Store    *memstore.Store
	t        testing.TB
	observer *mirror.Mirror
}

// New is an empty cell. What runs on it has ended when the test has.
func New(t testing.TB, options ...memstore.Option) *Cell {
	store := memstore.New(options...)
	c := &Cell{celltest.New(t, store), store, t, mirror.New(store, zap.NewNop())}
	t.Cleanup(run(c.observer.Run))
	return c
}

// run starts something; the function that it returns ends it, waits, and tells its error.
func run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f(ctx) // a mirror has no error, and a Runner's is reported below
	}()
	return func() {
		cancel()
		<-done
	}
}

// Up puts nodes whose agents have a session.
func (c *Cell) Up(nodes ...celltest.Node) {
	c.t.Helper()
	for _, n := range nodes {
		c.Node(n)
		name := cellstate.NodeName(n.Name)
		c.Put(cellstate.Record{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: n.Name}, Read: c.Snapshot().Node(name).AliveRevision})
	}
}

// Submit submits a job at the present time; celltest's Job knows no times.
func (c *Cell) Submit(j celltest.Job) cellstate.JobName {
	c.t.Helper()
	record := &ohmv1.Job{Spec: j.Proto(), Version: 1, SubmitTime: timestamppb.Now()}
	name := cellstate.JobNameOf(record.GetSpec())
	rec := cellstate.Record{Key: cellstate.JobKey(name), Value: record}
	now := c.Snapshot()
	var was *ohmv1.JobSpec
	if row := now.Job(name); row != nil && row.Record != nil {
		record.Version, rec.Read, was = row.Record.GetVersion()+1, row.Revision, row.Record.GetSpec()
	}
	recs := []cellstate.Record{rec}
	if cellstate.Barred(was, record.GetSpec()) {
		recs = append(recs, cellstate.Barrier(now, name.String()))
	}
	c.Put(recs...)
	return name
}

// Scheduler is a running scheduler and its mirror.
type Scheduler struct {
	*schedulers.Runner
	Mirror *mirror.Mirror
	stop   func()
}

// Stop ends the scheduler in good order and waits until it has ended.
func (s *Scheduler) Stop() { s.stop() }

// Run starts a scheduler; change, if given, changes its configuration before.
func (c *Cell) Run(name, instance string, policy schedulers.Scheduler, change ...func(*schedulers.Config)) *Scheduler {
	c.t.Helper()
	log := zaptest.NewLogger(c.t, zaptest.Level(zap.ErrorLevel))
	m := mirror.New(c.Store, log)
	config := schedulers.Config{
		Cell: m, Store: c.Store, Scheduler: policy, Name: name, Instance: instance, Version: "test", Log: log,
	}
	for _, f := range change {
		f(&config)
	}
	s := &Scheduler{Runner: schedulers.New(config), Mirror: m}
	// The scheduler ends before its mirror: its last writes may need it.
	stopMirror := run(m.Run)
	stopRunner := run(func(ctx context.Context) error {
		err := s.Runner.Run(ctx)
		if err != nil {
			c.t.Errorf("scheduler %s/%s: %v", name, instance, err)
		}
		return err
	})
	s.stop = sync.OnceFunc(func() {
		stopRunner()
		stopMirror()
	})
	c.t.Cleanup(s.stop)
	return s
}

// patience is how long Until waits: of real time, or of a synctest bubble's.
const patience = time.Minute

// Until waits until the state of the cell is as ok wants it, and returns that state.
func (c *Cell) Until(what string, ok func(*cellstate.Snapshot) bool) *cellstate.Snapshot {
	c.t.Helper()
	return c.Within(patience, what, ok)
}

// Within is Until with another patience.
func (c *Cell) Within(limit time.Duration, what string, ok func(*cellstate.Snapshot) bool) *cellstate.Snapshot {
	c.t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond) // ok may look at more than the state of the cell
	defer tick.Stop()
	now := c.Snapshot().Revision() // nothing older counts
	for over := false; ; {
		s, newer := c.observer.Watch()
		if s != nil && s.Revision() >= now && ok(s) {
			return s
		}
		if over {
			c.t.Fatalf("not within %v: %s", limit, what)
			return nil
		}
		select {
		case <-newer:
		case <-tick.C:
		case <-end.C:
			over = true
		}
	}
}

// Placed counts the live placements of a job in the default namespace.
func Placed(s *cellstate.Snapshot, job string) int {
	if row := s.Job(celltest.Name(job)); row != nil {
		return row.Placements()
	}
	return 0
}

// Finished says whether every task of a one-group job in the default namespace has ended.
func Finished(s *cellstate.Snapshot, job string) bool {
	row := s.Job(celltest.Name(job))
	if row == nil || row.Record == nil {
		return false
	}
	done := 0
	for _, t := range row.Tasks {
		if len(t.Ended) > 0 && t.Placement == nil {
			done++
		}
	}
	return done == int(row.Record.GetSpec().GetGroups()[0].GetCount())
}

// Word is the last word on a job in the default namespace; nil if there is none.
func Word(s *cellstate.Snapshot, job string) *ohmv1.Waiting {
	if row := s.Job(celltest.Name(job)); row != nil {
		return row.Waiting
	}
	return nil
}
