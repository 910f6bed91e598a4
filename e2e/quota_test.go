package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	"github.com/ohmcell/ohm/cellstate/keeper"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	batchpolicy "github.com/ohmcell/ohm/schedulers/batch"
	servicepolicy "github.com/ohmcell/ohm/schedulers/service"
)

// quotaCell is a cell on a real etcd with the parts that deal with quotas: a keeper and
// two schedulers, each with a connection and a mirror of its own.
type quotaCell struct {
	*celltest.Cell
	t     *testing.T
	store *etcdstore.Store
	view  *mirror.Mirror
}

func newQuotaCell(t *testing.T) *quotaCell {
	etcd, err := embedded.Start(t.Context(), shortDir(t), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	open := func(sender string) (*etcdstore.Store, *mirror.Mirror) {
		store, err := etcdstore.Open(t.Context(), etcdstore.Config{
			Endpoints: []string{etcd.Endpoint()}, Sender: sender, MaxTxnOps: embedded.MaxTxnOps, MaxRequestBytes: embedded.MaxRequestBytes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		m := mirror.New(store, zap.NewNop())
		running.Go(func() { _ = m.Run(ctx) })
		return store, m
	}
	store, view := open("server")
	c := &quotaCell{celltest.New(t, store), t, store, view}
	k := keeper.New(keeper.Config{Store: store, Mirror: view, Server: "s1", Limits: keeper.Limits{DoneJobs: 1, Sweep: 100 * time.Millisecond}})
	running.Go(func() { _ = k.Run(ctx) })
	for name, policy := range map[string]schedulers.Scheduler{"batch": batchpolicy.New(), "service": servicepolicy.New()} {
		store, m := open("scheduler-" + name)
		r := schedulers.New(schedulers.Config{Cell: m, Store: store, Scheduler: policy, Name: name, Instance: "one"})
		running.Go(func() { _ = r.Run(ctx) })
	}
	t.Cleanup(stop) // before the stores are closed
	for i := range 4 {
		name := fmt.Sprint("n", i)
		c.Node(celltest.Node{Name: name, CPU: 64_000})
		c.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(name)), Value: &ohmv1.Alive{Node: name}})
	}
	return c
}

// submit submits jobs, each from a client of its own, alternately to the two schedulers.
func (c *quotaCell) submit(prefix string, n int, cpu int64) {
	var clients sync.WaitGroup
	slots := make(chan struct{}, 50)
	for i := range n {
		slots <- struct{}{}
		clients.Go(func() {
			defer func() { <-slots }()
			spec := celltest.Job{Name: fmt.Sprint(prefix, i), Scheduler: []string{"batch", "service"}[i%2], CPU: cpu}.Proto()
			rec := cellstate.Record{Key: cellstate.JobKey(cellstate.JobNameOf(spec)), Value: &ohmv1.Job{Spec: spec, Version: 1}}
			if out, err := c.store.Commit(c.t.Context(), cellstate.Write{Records: []cellstate.Record{rec}}); err != nil || out.Applied[0] == 0 {
				c.t.Errorf("job %s%d: %v", prefix, i, err)
			}
		})
	}
	clients.Wait()
}

// endAll ends what is placed, until n tasks have ended. The keeper removes their jobs.
func (c *quotaCell) endAll(n int) {
	c.t.Helper()
	ended := 0
	within(c.t, patience, fmt.Sprint(n, " tasks have run"), func() bool {
		s := c.view.Snapshot()
		var writes []cellstate.Write
		for node := range s.Nodes() {
			for _, p := range node.Placements() {
				writes = append(writes, cellstate.Write{Records: cellstate.ReleaseRecords(
					s.Job(p.Slot.JobName()).Task(p.Slot), celltest.StatusOf(p, task.Succeeded))})
			}
		}
		if len(writes) == 0 {
			return ended == n
		}
		out, err := c.store.Commit(c.t.Context(), writes...)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, at := range out.Applied {
			if at > 0 {
				ended++
			}
		}
		if _, err := c.view.WaitSnapshot(c.t.Context(), out.Revision); err != nil {
			c.t.Fatal(err)
		}
		return ended == n
	})
}

// Field case 90: used is never over the quota, at no revision, and returns to nothing.
func TestCase90(t *testing.T) {
	t.Parallel()
	c := newQuotaCell(t)
	start := c.Snapshot()
	scope := celltest.Namespace("default")
	c.submit("before", 30, 1000) // while this traffic runs the quota is set
	set := c.Quota(scope, celltest.CPU(10_000))
	c.endAll(30)
	c.submit("a", 50, 1000)
	within(t, patience, "ten are in use", func() bool { return c.view.Snapshot().Quota(scope).Used()[0] == 10_000 })
	c.endAll(50)
	c.submit("never", 1000, 11_000) // each more than the quota
	c.submit("b", 1000, 1000)
	c.endAll(1000)
	within(t, patience, "those that can never run say so", func() bool {
		s, said := c.view.Snapshot(), 0
		for i := range 1000 {
			if strings.Contains(s.Job(celltest.Name(fmt.Sprint("never", i))).Waiting.GetMessage(), "can never run under the quota") {
				said++
			}
		}
		return said == 1000
	})
	within(t, patience, "nothing is in use or wanted", func() bool {
		for _, share := range c.view.Snapshot().Quota(scope).Shares {
			if share.Tasks != 0 || share.Used != (cellstate.Amounts{}) || share.Record.GetWanted() != nil {
				return false
			}
		}
		return true
	})

	present := c.Snapshot().Revision()
	a, s, most, commits := audit.New(start), start, int64(0), 0
	for b, err := range c.store.Changes(t.Context(), start.Revision()) {
		if err == nil {
			err = a.Observe(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, change := range b.Changes { // and counted once more, by hand
			if change.Key.Parse().Kind == cellstate.KindPlacement && !change.Deleted && change.Revision > set {
				commits++
			}
			if i+1 == len(b.Changes) || b.Changes[i+1].Revision != change.Revision {
				from := i
				for from > 0 && b.Changes[from-1].Revision == change.Revision {
					from--
				}
				was := live(s)
				if s, _, err = s.Apply(cellstate.Batch{Revision: change.Revision, Changes: b.Changes[from : i+1]}); err != nil {
					t.Fatal(err)
				}
				if is := live(s); change.Revision > set && is > was {
					most = max(most, is)
				}
			}
		}
		if b.Revision >= present {
			break
		}
	}
	for _, v := range a.Report().GetViolations() {
		t.Errorf("audit: %v", v)
	}
	if most != 10_000 || commits < 1050 {
		t.Errorf("at most %d milli in use after %d placements", most, commits)
	}
}

// live is the CPU of all live placements.
func live(s *cellstate.Snapshot) (milli int64) {
	for n := range s.Nodes() {
		for _, p := range n.Placements() {
			milli += p.GetResources().GetCpuMilli()
		}
	}
	return milli
}

// The verbs on a running cell: a quota holds tasks back, says so, and lets them go.
func TestQuotaVerbs(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--hollow-nodes", "2")
	d.ohm("quota", "set", "default", "--cpu", "2")
	d.ohm("run", d.job(`
job: five
kind: batch
groups:
  - name: main
    count: 5
    cpu: 1
    memory: 16Mi
    command: [sleep, "1000"]
    constraints:
      - {key: hollow, exists: true}
`))
	type amounts struct{ CPUMilli int64 }
	type quota struct {
		Name  string
		Limit amounts
		Used  amounts
	}
	within(t, patience, "two of five are placed", func() bool { return read[quota](d.client, "quota", "get", "default").Used.CPUMilli == 2000 })
	within(t, patience, "explain says why", func() bool {
		return strings.Contains(d.ohm("explain", "five"), "3 tasks waiting for the quota of namespace default: asking for 1 cpu each of a quota of 2")
	})
	d.ohm("quota", "set", "default", "--cpu", "4")
	within(t, patience, "four of five are placed", func() bool { return read[[]quota](d.client, "quota", "list")[0].Used.CPUMilli == 4000 })
	d.ohm("quota", "delete", "default")
	within(t, patience, "all are placed", func() bool { return len(d.tasks("five")) == 5 })
	if a := d.try("quota", "get", "default"); a.code != 4 {
		t.Errorf("exit code %d, %s", a.code, a.stderr)
	}
	d.ohm("audit")
	d.ohm("stop", "--all", "--wait", "--timeout", patience.String())
}
