package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/schedtest"
)

// Field case 93 on etcd and processes: beside a scheduler that is stopped in the midst of its work
// (SIGSTOP), one that proposes nothing but what cannot commit, and one that floods the store,
// another's tasks are placed as if it were not there: 99 of 100 within twice the time that they
// take alone. It measures, so it runs beside no other test.
func TestCase93(t *testing.T) {
	dir, address := shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), address)
	c := client{t, start(t, "ohm", "server", "--etcd", address, "--address", "127.0.0.1:0").word("ready")}
	batch := start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", address)
	start(t, "ohm", "scheduler", "--policy", "service", "--etcd", address)
	within(t, patience, "both are live", func() bool { return strings.Count(c.ohm("scheduler", "list"), "Live") == 2 })
	store := c.open("users")
	m := mirror.New(store, zap.NewNop())
	beside(t, "mirror", m.Run)
	cell := celltest.New(t, store)
	for name, cpu := range map[string]int64{"full": 1000, "n1": 4_000_000, "n2": 4_000_000} {
		cell.Node(celltest.Node{Name: name, CPU: cpu})
		cell.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(name)), Value: &ohmv1.Alive{Node: name}})
	}
	cell.Job(celltest.Job{Name: "fills", Scheduler: "nobody", CPU: 1000})
	cell.Place("fills", 0, "full")

	jobs := 0
	// p99 is how long the service scheduler's tasks wait for their nodes, one after the other.
	p99 := func(n int) time.Duration {
		t.Helper()
		var waits []time.Duration
		for range n {
			jobs++
			name := fmt.Sprint("j", jobs)
			cell.Job(celltest.Job{Name: name, Kind: "service", CPU: 100})
			began := time.Now()
			for schedtest.Placed(m.Snapshot(), name) == 0 {
				_, newer := m.Watch()
				select {
				case <-newer:
				case <-time.After(patience):
					t.Fatalf("%s is not placed", name)
				}
			}
			waits = append(waits, time.Since(began))
			cell.Mark(celltest.Name(name), func(j *ohmv1.Job) { j.Stopped = true })
			cell.Release(celltest.Slot(m.Snapshot(), celltest.Name(name), "main", 0), task.Stopped) // new room: what waits is tried again
		}
		slices.Sort(waits)
		return waits[len(waits)*99/100]
	}
	const tasks = 100
	p99(20) // all is warm
	alone := []time.Duration{p99(tasks)}
	beside := map[string]time.Duration{}

	cell.Job(celltest.Job{Name: "large", Count: 2000, CPU: 100})
	within(t, patience, "batch is at work", func() bool { return schedtest.Placed(m.Snapshot(), "large") > 0 })
	batch.pause()
	beside["one that is stopped"] = p99(tasks)
	batch.resume()
	within(t, patience, "it finishes its work", func() bool { return schedtest.Placed(m.Snapshot(), "large") == 2000 })
	alone = append(alone, p99(tasks))

	mad := c.schedule("mad", schedtest.Stubborn{Node: "full"})
	cell.Job(celltest.Job{Name: "never", Scheduler: "mad", Count: 50, CPU: 500})
	within(t, patience, "each of its tasks has lost", func() bool { return mad.Stats().Refused["Resources"] >= 50 })
	began, decided, refused := time.Now(), mad.Stats().Decisions, mad.Stats().Refused["Resources"]
	beside["one whose policy has gone mad"] = p99(tasks)
	if mad.Stats().Decisions == decided {
		t.Error("it did not decide on anything meanwhile")
	}
	if more, most := mad.Stats().Refused["Resources"]-refused, 50*(time.Since(began).Seconds()+1); float64(more) > most {
		t.Errorf("its 50 tasks lost %d times: more than once a second each", more)
	}
	cell.Mark(celltest.Name("never"), func(j *ohmv1.Job) { j.Stopped = true })
	alone = append(alone, p99(tasks))

	// One that goes past the Runner: request after request that cannot apply, as fast as the
	// store answers.
	ctx, cancel := context.WithCancel(t.Context())
	raw, done, requests := c.open("raw"), make(chan error, 1), 0
	go func() {
		var err error
		for ; err == nil && ctx.Err() == nil; requests++ {
			_, err = raw.Commit(ctx, cellstate.Write{Records: []cellstate.Record{{Key: cellstate.JobKey(celltest.Name("none")), Read: 1, Value: &ohmv1.Job{}}}})
		}
		done <- err
	}()
	beside["one that floods the store"] = p99(tasks)
	cancel()
	if <-done; requests < tasks {
		t.Errorf("the flood was of %d requests", requests)
	}
	alone = append(alone, p99(tasks))

	t.Logf("p99 of %d tasks: alone %v; beside %v; the flood was of %d requests", tasks, alone, beside, requests)
	const noise = 100 * time.Millisecond // of a machine that has much else to do
	for what, wait := range beside {
		if wait > 2*slices.Max(alone)+noise {
			t.Errorf("beside %s a task waits %v; alone %v", what, wait, alone)
		}
	}
	c.ohm("audit")
}
