package schedulers_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// outage stands between a Runner and its store and cell; while it is down nothing answers.
type outage struct {
	schedulers.Cell
	schedulers.Store
	down atomic.Bool
}

func (o *outage) err() error {
	if o.down.Load() {
		return cellstate.ErrUnreachable
	}
	return nil
}

type outageCell struct{ *outage }

func (o outageCell) Watch() (*cellstate.Snapshot, <-chan struct{}) { return o.Cell.Watch() }
func (o outageCell) Commit(ctx context.Context, txns ...*cellstate.Txn) ([]cellstate.Result, error) {
	if err := o.err(); err != nil {
		return make([]cellstate.Result, len(txns)), err
	}
	return o.Cell.Commit(ctx, txns...)
}

type outageStore struct{ *outage }

func (o outageStore) Commit(ctx context.Context, w ...cellstate.Write) (cellstate.Outcome, error) {
	if err := o.err(); err != nil {
		return cellstate.Outcome{}, err
	}
	return o.Store.Commit(ctx, w...)
}
func (o outageStore) Grant(ctx context.Context, ttl time.Duration) (cellstate.Lease, error) {
	if err := o.err(); err != nil {
		return 0, err
	}
	return o.Store.Grant(ctx, ttl)
}
func (o outageStore) Revoke(ctx context.Context, l cellstate.Lease) error {
	if err := o.err(); err != nil {
		return err
	}
	return o.Store.Revoke(ctx, l)
}

// KeepAlive loses the lease when the store is away for longer than the lease lives.
func (o outageStore) KeepAlive(ctx context.Context, l cellstate.Lease) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- o.Store.KeepAlive(ctx, l) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			if o.down.Load() {
				cancel()
				<-ended
				return errors.New("the lease is lost")
			}
		}
	}
}

// A store that goes away and comes back stops nothing for good.
func TestSurvivesAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 2000})
		o := &outage{}
		run := cell.Run("batch", "a", schedtest.FirstFit{}, func(c *schedulers.Config) {
			o.Cell, o.Store = c.Cell, c.Store
			c.Cell, c.Store = outageCell{o}, outageStore{o}
		})
		registered := func(s *cellstate.Snapshot) bool {
			return s.Scheduler("batch") != nil && len(s.Scheduler("batch").Instances) == 1
		}
		cell.Until("registered", registered)
		o.down.Store(true)
		cell.Submit(celltest.Job{Name: "j", Count: 3, CPU: 1000})
		cell.Until("the lease has run out", func(s *cellstate.Snapshot) bool { return len(s.Scheduler("batch").Instances) == 0 })
		<-time.After(time.Minute)
		if n := run.Stats().Errors; n < 10 || n > 200 {
			t.Errorf("%d errors in a minute", n)
		}
		o.down.Store(false)
		cell.Within(5*time.Second, "registered again, placed and said", func(s *cellstate.Snapshot) bool {
			return registered(s) && schedtest.Placed(s, "j") == 2 && schedtest.Word(s, "j") != nil
		})
	})
}

// L6: a commit whose reply was lost is neither repeated nor taken for a conflict.
func TestLostReply(t *testing.T) {
	var dropped atomic.Int32
	drop := func(writes []cellstate.Write) bool {
		for _, w := range writes {
			if len(w.Fences) > 0 && len(w.Records) > 0 && w.Records[0].Key.Parse().Kind == cellstate.KindPlacement {
				return dropped.Add(1) <= 2
			}
		}
		return false
	}
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 4000})
		run := cell.Run("batch", "a", schedtest.FirstFit{})
		cell.Submit(celltest.Job{Name: "j", Count: 2, CPU: 1000})
		cell.Until("placed and counted", func(s *cellstate.Snapshot) bool { return schedtest.Placed(s, "j") == 2 && run.Stats().Committed == 2 })
		if c := conflicts(cell.Snapshot(), ""); len(c) != 0 || dropped.Load() == 0 {
			t.Errorf("conflicts with itself: %v; %d replies lost", c, dropped.Load())
		}
	}, memstore.DropReplies(drop))
}

// scripted is a policy made of one function.
type scripted func(schedulers.Input) (schedulers.Proposal, error)

func (f scripted) Schedule(_ context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	return f(in)
}

// claimOf is a proposal that claims each need on a node, changed by change.
func claimOf(in schedulers.Input, node cellstate.NodeName, change func(*cellstate.Claim)) schedulers.Proposal {
	txn := &cellstate.Txn{Mode: cellstate.Incremental}
	for _, w := range in.Work {
		for _, n := range w.Needs {
			c := celltest.Claim(in.Snapshot, n.Slot, node)
			change(&c)
			txn.Claims = append(txn.Claims, c)
		}
	}
	return schedulers.Proposal{Txns: []*cellstate.Txn{txn}}
}

// A broken policy harms nobody but its own jobs, which say so, and it is not asked in
// a tight loop.
func TestBrokenPolicies(t *testing.T) {
	one := celltest.Job{Name: "j", Scheduler: "batch", CPU: 100}
	for _, row := range []struct {
		name      string
		job       celltest.Job
		policy    func(schedulers.Input) (schedulers.Proposal, error)
		word      string
		conflicts int
	}{
		{"it fails", one, func(schedulers.Input) (schedulers.Proposal, error) { return schedulers.Proposal{}, errors.New("boom") }, "the scheduler failed: boom", 0},
		{"it says nothing", one, func(schedulers.Input) (schedulers.Proposal, error) { return schedulers.Proposal{}, nil }, "the scheduler gave no reason", 0},
		{"it claims a slot that nobody asked for", one, func(in schedulers.Input) (schedulers.Proposal, error) {
			return claimOf(in, "n1", func(c *cellstate.Claim) { c.Slot.Index = 1 }), nil
		}, "the scheduler gave no reason", 0},
		{
			"it claims another node than it must", celltest.Job{Name: "j", Kind: "system", Scheduler: "batch", CPU: 100},
			func(in schedulers.Input) (schedulers.Proposal, error) {
				return claimOf(in, "n1", func(c *cellstate.Claim) { c.Node = "n2" }), nil
			}, "the scheduler gave no reason", 0,
		},
		{
			"a part of its gang is wrong", celltest.Job{Name: "j", Kind: "ml", Scheduler: "batch", Gang: true, Count: 2, CPU: 100},
			func(in schedulers.Input) (schedulers.Proposal, error) {
				out := claimOf(in, "n1", func(c *cellstate.Claim) { c.Slot.Index *= 7 })
				out.Txns[0].Mode = cellstate.Atomic
				return out, nil
			}, "the scheduler gave no reason", 0,
		},
		{"it makes bad claims", one, func(in schedulers.Input) (schedulers.Proposal, error) {
			return claimOf(in, "n1", func(c *cellstate.Claim) { c.Resources = &ohmv1.Resources{CpuMilli: -1} }), nil
		}, "the scheduler made a bad claim (resources)", 0},
		// Field case 10: what was refused is not sent a second time.
		{"it claims what never fits, over and over", one, func(in schedulers.Input) (schedulers.Proposal, error) {
			return claimOf(in, "n1", func(c *cellstate.Claim) { c.Resources = &ohmv1.Resources{CpuMilli: 1_000_000} }), nil
		}, "main/0 lost node n1 (Resources cpu)", 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, cell *schedtest.Cell) {
				cell.Up(celltest.Node{Name: "n1"})
				cell.Node(celltest.Node{Name: "n2"})
				run := cell.Run("batch", "a", scripted(row.policy), func(c *schedulers.Config) { c.Log = nil })
				cell.Submit(row.job)
				s := cell.Until("it has a word", waits("j"))
				if got := schedtest.Word(s, "j").GetMessage(); !strings.Contains(got, row.word) {
					t.Errorf("the word is %q, want %q in it", got, row.word)
				}
				<-time.After(30 * time.Second)
				if n := run.Stats().Decisions; n < 3 || n > 10 {
					t.Errorf("%d decisions in half a minute, want the first and the sweeps'", n)
				}
				s = cell.Snapshot()
				if n := len(conflicts(s, "")); schedtest.Placed(s, "j") != 0 || n != row.conflicts {
					t.Errorf("%d placed, %d conflicts, want none and %d", schedtest.Placed(s, "j"), n, row.conflicts)
				}
			})
		})
	}
}

// The journal keeps a thousand entries of a scheduler, the newest, for an hour.
func TestJournalIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1"})
		tooMuch := func(in schedulers.Input) (schedulers.Proposal, error) {
			return claimOf(in, "n1", func(c *cellstate.Claim) { c.Resources = &ohmv1.Resources{CpuMilli: 1_000_000} }), nil
		}
		run := cell.Run("batch", "a", scripted(tooMuch), func(c *schedulers.Config) { c.Log = nil })
		cell.Submit(celltest.Job{Name: "j", Count: 2600, CPU: 100})
		cell.Until("each was refused once", func(*cellstate.Snapshot) bool { return run.Stats().Refused["Resources"] == 2600 })
		synctest.Wait()
		all := conflicts(cell.Snapshot(), "batch")
		if n := len(all); n != 1000 {
			t.Errorf("%d entries", n)
		}
		if newest := all[len(all)-1].GetSlot().GetIndex(); newest < 2300 { // of the last round
			t.Errorf("the newest entry is about task %d of 2600", newest)
		}
		run.Stop()
		<-time.After(time.Hour + time.Second)
		if all := conflicts(cell.Snapshot(), "batch"); len(all) != 0 {
			t.Errorf("%d entries an hour later", len(all))
		}
	})
}

func TestConfigurationThatCannotWork(t *testing.T) {
	for _, name := range []string{"", "a/b", "A", "-a", strings.Repeat("a", 64)} {
		c := schedulers.Config{Cell: outageCell{}, Store: outageStore{}, Scheduler: schedtest.FirstFit{}, Name: name, Instance: "a"}
		if err := schedulers.New(c).Run(t.Context()); err == nil {
			t.Errorf("a scheduler named %q runs", name)
		}
		c.Name, c.Instance = "a", name
		if err := schedulers.New(c).Run(t.Context()); err == nil {
			t.Errorf("an instance named %q runs", name)
		}
	}
	if err := schedulers.New(schedulers.Config{Name: "a", Instance: "a"}).Run(t.Context()); err == nil {
		t.Error("a scheduler without a cell runs")
	}
}
