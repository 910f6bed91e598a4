package e2e

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// beside runs something until the test is over, which waits for its end.
func beside(t *testing.T, what string, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
}

// open opens the store of a client's cell.
func (c client) open(sender string) *etcdstore.Store {
	c.t.Helper()
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	store, err := etcdstore.Discover(c.t.Context(), conn, etcdstore.Config{Sender: sender})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { store.Close() })
	return store
}

// schedule runs a scheduler of the test's own in a client's cell, and waits until it is live.
func (c client) schedule(name string, policy schedulers.Scheduler) *schedulers.Runner {
	c.t.Helper()
	store := c.open(name)
	m := mirror.New(store, zap.NewNop())
	beside(c.t, "mirror of "+name, m.Run)
	runner := schedulers.New(schedulers.Config{Cell: m, Store: store, Name: name, Instance: "a", Scheduler: policy})
	beside(c.t, name, runner.Run)
	within(c.t, patience, name+" is live", func() bool { return strings.Contains(c.ohm("scheduler", "list", "-o", "name"), name) })
	return runner
}

// late has its snapshot when it says that it decides, and answers when it may.
type late struct {
	schedulers.Scheduler
	decides chan<- bool
	may     <-chan bool
}

func (p late) Schedule(ctx context.Context, in schedulers.Input) (schedulers.Proposal, error) {
	select {
	case p.decides <- true:
	default:
	}
	select {
	case <-p.may:
	case <-ctx.Done():
	}
	return p.Scheduler.Schedule(ctx, in)
}

// Field case 74, through all of the product: what a scheduler's process is asked about one node
// and about a transaction, one that it lost included; and what is said when it stands still, and
// when it has been started anew and has forgotten.
func TestCase74Questions(t *testing.T) {
	t.Parallel()
	dir, address := shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), address)
	c := client{t, start(t, "ohm", "server", "--etcd", address, "--address", "127.0.0.1:0").word("ready")}
	run := func() *process {
		return start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", address, "--instance", "one")
	}
	batch := run()
	cell := celltest.New(t, c.open("nodes"))
	for name, cpu := range map[string]int64{"n1": 4000, "n2": 8000, "n3": 1000} {
		cell.Node(celltest.Node{Name: name, CPU: cpu})
		cell.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(name)), Value: &ohmv1.Alive{Node: name}})
	}
	within(t, patience, "the scheduler is live", func() bool { return strings.Contains(c.ohm("scheduler", "list"), "Live") })
	submit := func(name, scheduler, cpu string, count string) {
		t.Helper()
		c.ohm("run", c.job("job: "+name+"\nkind: batch\nscheduler: "+scheduler+"\ngroups:\n  - {name: main, count: "+count+", cpu: "+cpu+", memory: 1Mi, command: ['true']}\n"))
	}
	on := func(job string) (nodes []string, txn string) {
		for _, v := range c.tasks(job) {
			if v.Node != "" {
				nodes, txn = append(nodes, v.Node), v.Transaction
			}
		}
		return nodes, txn
	}
	type decision struct {
		Source, Outcome, Message, Scheduler, Instance string
		SnapshotRevision, Revision                    int64
		Groups                                        []struct {
			Nodes, Considered int
			ScoredBy          string
			Best              []struct {
				Node  string
				Score float64
			}
		}
		Chosen []struct{ Task, Node string }
		Lost   []struct{ Task, Node, Reason, Dimension, Wanted, Free, Winner, WinnerScheduler string }
	}
	submit("j", "batch", "3", "1")
	within(t, patience, "j is placed", func() bool { nodes, _ := on("j"); return len(nodes) == 1 })
	nodes, txn := on("j")

	d := read[decision](c, "explain", "--txn", txn)
	stored := read[struct {
		SnapshotRevision int64
		Committed        []struct{ Revision int64 }
	}](c, "txn", "get", txn)
	if d.Source != "log" || d.Outcome != "Committed" || d.Instance != "one" || d.SnapshotRevision != stored.SnapshotRevision || d.Revision != stored.Committed[0].Revision || d.SnapshotRevision >= d.Revision {
		t.Errorf("the decision is %+v; stored is %+v", d, stored)
	}
	if len(d.Chosen) != 1 || d.Chosen[0].Task != "j/main/0" || d.Chosen[0].Node != nodes[0] {
		t.Errorf("chosen is %+v; the task is on %v", d.Chosen, nodes)
	}
	if g := d.Groups; len(g) != 1 || g[0].Nodes != 3 || g[0].Considered != 2 || g[0].ScoredBy == "" || len(g[0].Best) != 2 || g[0].Best[0].Node != nodes[0] || g[0].Best[0].Score < g[0].Best[1].Score {
		t.Errorf("it was chosen among %+v; want the two of three nodes that have room, first %v", g, nodes)
	}

	submit("large", "batch", "64", "1")
	within(t, patience, "large waits", func() bool { return strings.Contains(c.ohm("explain", "large"), "largest free") })
	type about struct {
		Scheduler string
		Groups    []struct {
			Fits     bool
			Refusals []struct {
				Reason, Dimension, Wanted, Free, Has string
				Takers                               []struct{ Task, Takes string }
			}
		}
	}
	a := read[about](c, "explain", "--node", nodes[0], "large")
	if len(a.Groups) != 1 || a.Groups[0].Fits || len(a.Groups[0].Refusals) != 1 {
		t.Fatalf("of %s it says %+v", nodes[0], a)
	}
	if r := a.Groups[0].Refusals[0]; r.Reason != "Resources" || r.Dimension != "cpu" || r.Wanted != "64" || len(r.Takers) != 1 || r.Takers[0].Task != "j/main/0" || r.Takers[0].Takes != "3" {
		t.Errorf("of %s it says %+v", nodes[0], r)
	}
	refused := func(code int, text string, args ...string) {
		t.Helper()
		if a := c.try(args...); a.code != code || !strings.Contains(a.stderr, text) {
			t.Errorf("ohm %v: exit code %d: %s; want %d and %q", args, a.code, a.stderr, code, text)
		}
	}
	refused(4, `no node "n9"`, "explain", "--node", "n9", "large")
	refused(4, "beyond retention, or never was", "explain", "--txn", "01ARZ3NDEKTSV4RRFFQ69G5FAV")

	// One that loses: what it had chosen has gone to another scheduler while it decided.
	decides, may := make(chan bool, 1), make(chan bool)
	c.schedule("slow", late{schedtest.FirstFit{}, decides, may})
	submit("loses", "slow", "1", "1")
	<-decides
	submit("fills", "batch", "1", "20")
	within(t, patience, "the cell is full", func() bool { nodes, _ := on("fills"); return len(nodes) == 10 })
	close(may)
	type conflict struct{ Transaction, Scheduler string }
	var lost []conflict
	within(t, patience, "it has lost", func() bool {
		lost = slices.DeleteFunc(read[[]conflict](c, "conflict", "list"), func(l conflict) bool { return l.Scheduler != "slow" })
		return len(lost) > 0
	})
	d = read[decision](c, "explain", "--txn", lost[len(lost)-1].Transaction)
	if d.Source != "log" || d.Outcome != "Lost" || d.Scheduler != "slow" || len(d.Lost) != 1 {
		t.Fatalf("the lost decision is %+v", d)
	}
	if l := d.Lost[0]; l.Task != "loses/main/0" || l.Node != d.Chosen[0].Node || l.Reason != "Resources" || l.Dimension != "cpu" || l.Wanted != "1" || l.Free != "0" || l.WinnerScheduler != "batch" || !strings.HasPrefix(l.Winner, "fills/main/") {
		t.Errorf("what it lost: %+v", l)
	}
	type explained struct {
		Conflicts []struct {
			Winner struct{ Task, Scheduler string }
		}
		Groups []struct {
			Nodes   int
			Reasons []struct{ Nodes int }
		}
	}
	within(t, patience, "the loser is told who won, and why it waits now", func() bool {
		e := read[explained](c, "explain", "loses")
		return len(e.Conflicts) > 0 && e.Conflicts[0].Winner.Scheduler == "batch" && len(e.Groups) == 1 && e.Groups[0].Nodes == 3
	})

	// The process stands still: for a while nobody knows whether it will answer.
	batch.pause()
	if d := read[decision](c, "explain", "--txn", txn); d.Source != "store" || !strings.Contains(d.Message, "has not answered within 3s") || d.Chosen[0].Node != nodes[0] {
		t.Errorf("of a scheduler that stands still: %+v", d)
	}
	refused(3, "scheduler batch has not answered within 3s", "explain", "--node", nodes[0], "large")
	batch.resume()
	if d := read[decision](c, "explain", "--txn", txn); d.Source != "log" {
		t.Errorf("when it goes on it says %+v", d)
	}

	// Its successor has another log.
	batch.kill()
	batch = run()
	within(t, patience, "its successor has answered", func() bool {
		d := read[decision](c, "explain", "--txn", txn)
		return d.Source == "store" && strings.Contains(d.Message, "beyond the retention") && d.SnapshotRevision == stored.SnapshotRevision
	})
	batch.terminate()
	within(t, patience, "no process is left", func() bool {
		return strings.Contains(read[decision](c, "explain", "--txn", txn).Message, "the process that decided it is gone")
	})
	refused(5, "no process of scheduler batch is there", "explain", "--node", nodes[0], "large")
}
