package agent

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestHangingDriver: a driver that does not answer, over all or over one task, keeps the
// agent from nothing else; it is not asked again and again meanwhile.
func TestHangingDriver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.LookTimeout = 3 * time.Second
		w.start()
		stuck, b, c := assignment("stuck", 100), assignment("b", 100), assignment("c", 100)
		w.complete(stuck, b)
		release := make(chan struct{})
		asked := new(atomic.Int64)
		w.m.locked(func() {
			w.m.hangs = func(id string) {
				if id == "" || id == stuck.Id {
					asked.Add(1)
					<-release
				}
			}
		})
		w.pass(20 * time.Second) // a look at everything has begun
		w.incremental(nil, c)
		w.m.exit(b.Id, 3)
		w.pass(7 * time.Second)
		equal(t, "told of b", w.told(b.Id), []string{"Running", "Failed Exited"})
		equal(t, "told of c", w.told(c.Id), []string{"Running"})
		w.pass(5 * time.Minute)
		equal(t, "questions that hang", asked.Load(), 2)
		w.m.exit(stuck.Id, 0)
		close(release)
		w.pass(20 * time.Second)
		equal(t, "told of what hung", w.told(stuck.Id), []string{"Running", "Succeeded Exited"})
	})
}

// TestLogsWithoutJournal: the logs of tasks that have been released are kept by age and
// number also where the journal that knew of them was lost.
func TestLogsWithoutJournal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.KeepLogs, w.config.KeepLogsFor = 2, time.Hour
		w.start()
		w.complete()
		var ids []string
		for _, name := range []string{"a", "b"} {
			a := assignment(name, 100)
			ids = append(ids, a.Id)
			w.incremental(nil, a)
			w.m.exit(a.Id, 0)
			w.incremental([]string{a.Id})
		}
		w.halt()
		if err := os.Remove(filepath.Join(w.config.Dir, "journal")); err != nil {
			t.Fatal(err)
		}
		c := assignment("c", 100)
		w.m.locked(func() { w.m.listLogs = os.ErrDeadlineExceeded })
		w.start()
		w.complete(c)
		w.m.exit(c.Id, 0)
		w.incremental([]string{c.Id})
		w.pass(time.Minute)
		have := func(when string, want ...bool) {
			t.Helper()
			equal(t, when, []bool{w.m.hasLogs(ids[0]), w.m.hasLogs(ids[1]), w.m.hasLogs(c.Id)}, want)
		}
		have("while they cannot be listed", true, true, true)
		w.m.locked(func() { w.m.listLogs = nil })
		w.pass(time.Minute)
		have("the newest two", false, true, true)
		w.push(w.ask(&ohmv1.LogRequest{Id: "r", TaskId: ids[1]}), "", "", "", true)
		w.pass(55 * time.Minute)
		have("within the hour", false, true, true)
		w.pass(8 * time.Minute)
		have("after it", false, false, false)
	})
}
