package agent

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestReconnect: tasks go on without a server, and every session is told all again.
func TestReconnect(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		first := w.session().hello
		equal(t, "last revision", first.GetLastRevision(), 0)
		a, b, c := assignment("a", 100), assignment("b", 100), assignment("c", 100, maxRuntime(30*time.Second))
		w.complete(a, b, c)
		w.m.did()
		w.locked(func() { w.away = true })
		close(w.session().end)
		w.pass(20 * time.Second)
		w.m.exit(b.Id, 1)
		w.pass(time.Minute)
		equal(t, "calls", w.m.did(), []string{"signal " + c.Id + " 15"}) // the agent needs no server for that
		w.locked(func() { w.away = false })
		w.pass(10 * time.Second)
		second := w.session().hello
		equal(t, "last revision", second.GetLastRevision(), 10)
		if first.GetSession() == second.GetSession() || second.GetSession() == "" {
			t.Errorf("sessions %q and %q", first.GetSession(), second.GetSession())
		}
		early, _ := w.saw()
		equal(t, "told before Complete", early, 0)
		w.complete(a, b, c)
		equal(t, "a", w.told(a.Id), []string{"Running"})
		equal(t, "b", w.told(b.Id), []string{"Failed Exited"})
		equal(t, "c", w.told(c.Id), []string{"Failed TimedOut"})
		equal(t, "calls", w.m.did(), nil)
	})
}

// TestLostReport: what a server took and lost is told to the next.
func TestLostReport(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		w.m.exit(a.Id, 0)
		w.pass(time.Second)
		for range 3 {
			close(w.session().end)
			w.pass(10 * time.Second)
			w.complete(a)
			equal(t, "told", w.told(a.Id), []string{"Succeeded Exited"})
		}
		w.pass(w.agent.Repeat + 2*w.agent.Resync) // and to the same one, if it does nothing about it
		equal(t, "told", w.told(a.Id), []string{"Succeeded Exited", "Succeeded Exited"})
		w.incremental([]string{a.Id})
		w.pass(time.Hour)
		equal(t, "told", len(w.told(a.Id)), 2)
	})
}

func TestGap(t *testing.T) {
	for _, c := range []struct {
		name string
		from int64
	}{{"lost", 11}, {"twice", 9}} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				a := assignment("a", 100)
				w.complete(a)
				w.m.did()
				w.session().out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Incremental{
					Incremental: &ohmv1.Incremental{FromRevision: c.from, Revision: 12, Removed: []string{a.Id}}}}
				w.pass(10 * time.Second)
				equal(t, "sessions", w.sessionCount(), 2)
				equal(t, "last revision", w.session().hello.GetLastRevision(), 10)
				equal(t, "calls", w.m.did(), nil)
				w.incremental(nil, a) // without a Complete: a gap, too
				w.pass(10 * time.Second)
				equal(t, "sessions", w.sessionCount(), 3)
			})
		})
	}
}

func TestSilentServer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Answer = 30 * time.Second
		w.start()
		w.pass(28 * time.Second)
		equal(t, "sessions", w.sessionCount(), 1)
		w.pass(10 * time.Second)
		equal(t, "sessions", w.sessionCount(), 2)
		w.complete()
		w.pass(10 * time.Minute) // once answered it may be silent for ever
		equal(t, "sessions", w.sessionCount(), 2)
	})
}

func TestHeartbeat(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.complete()
		for _, every := range []time.Duration{2 * time.Second, 30 * time.Second} {
			w.session().out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Timing{
				Timing: &ohmv1.Timing{Heartbeat: durationpb.New(every)}}}
			w.pass(every)
			_, before := w.saw()
			w.pass(100 * every)
			_, beats := w.saw()
			beats = beats[len(before):]
			if n := len(beats); n < 100 || n > 126 {
				t.Errorf("%d heartbeats in 100 times %v", n, every)
			}
			for i := range beats[1:] {
				if gap := beats[i+1].Sub(beats[i]); gap > every || gap < every*8/10 {
					t.Errorf("a gap of %v, wanted at most %v", gap, every)
				}
			}
		}
	})
}

// TestNotInComplete: what a new Complete does not name is released as if removed.
func TestNotInComplete(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a, b := assignment("a", 100), assignment("b", 100)
		w.complete(a, b)
		w.m.exit(a.Id, 0)
		w.pass(time.Second)
		w.m.did()
		close(w.session().end)
		w.pass(10 * time.Second)
		w.complete()
		w.pass(10 * time.Second)
		equal(t, "left", w.m.knows(), nil)
		told, _ := w.saw()
		equal(t, "told of what is not desired", told, 0)
	})
}

func TestBatches(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		var all []*ohmv1.Assignment
		for i := range 700 {
			all = append(all, assignment(fmt.Sprintf("j%d", i), 1))
		}
		w.config.Steps = 16
		w.complete(all...)
		w.pass(10 * time.Second)
		for _, a := range all {
			if w.last(a.Id).GetState() != task.Running {
				t.Fatalf("%s was told as %v", a.Id, w.last(a.Id))
			}
		}
		if n := w.session().batches; n > 10 {
			t.Errorf("%d messages for %d tasks", n, len(all))
		}
	})
}

// TestPace: of a node on which much happens the server hears a few times a second, and of
// each task how it stands then.
func TestPace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.complete()
		const tasks = 40
		var all []*ohmv1.Assignment
		for i := range tasks {
			all = append(all, assignment(fmt.Sprintf("t%d", i), 1))
		}
		w.incremental(nil, all...)
		for i := range tasks {
			if w.pass(time.Second / 10); i%2 == 0 {
				w.m.exit(all[i].Id, 0)
			}
		}
		w.pass(time.Second)
		for i := range tasks {
			want := []task.State{task.Succeeded, task.Running}[i%2]
			if got := w.last(assignment(fmt.Sprintf("t%d", i), 1).Id).GetState(); got != want {
				t.Errorf("t%d was told as %s, not %s", i, task.Name(got), task.Name(want))
			}
		}
		if n := w.session().batches; n > 4*5+2 || n < 5 {
			t.Errorf("%d messages in five seconds", n)
		}
	})
}

// TestDue: the first word is said soon, and the next ones wait for others.
func TestDue(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		last time.Duration // before now
		say  []task.State
		want time.Duration
	}{
		"nothing was sent of late":    {time.Hour, []task.State{task.Running}, 20 * time.Millisecond},
		"a task runs":                 {100 * time.Millisecond, []task.State{task.Running}, 900 * time.Millisecond},
		"one has ended":               {100 * time.Millisecond, []task.State{task.Running, task.Succeeded}, 150 * time.Millisecond},
		"one has ended, of two words": {100 * time.Millisecond, []task.State{task.Failed}, 150 * time.Millisecond},
		"almost over":                 {995 * time.Millisecond, []task.State{task.Stopping}, 20 * time.Millisecond},
	} {
		o := newOutbox()
		o.put("a", &ohmv1.Status{State: task.Running})
		for i, s := range c.say {
			o.put([]string{"a", "b"}[i], &ohmv1.Status{State: s})
		}
		if got := o.due(now, now.Add(-c.last), 20*time.Millisecond, time.Second).Sub(now); got != c.want {
			t.Errorf("%s: due after %v, want %v", name, got, c.want)
		}
		o.take(2)
		if o.ends != 0 {
			t.Errorf("%s: %d ends are left of nothing", name, o.ends)
		}
	}
}

func TestOutbox(t *testing.T) {
	o := newOutbox()
	status := func(s task.State) *ohmv1.Status { return &ohmv1.Status{State: s} }
	o.put("a", status(task.Starting))
	o.put("b", status(task.Starting))
	o.put("a", status(task.Running))
	o.put("c", status(task.Failed))
	first := o.take(2)
	equal(t, "batch", first, []*ohmv1.Status{status(task.Running), status(task.Starting)})
	o.put("a", status(task.Succeeded))
	equal(t, "batch", o.take(5), []*ohmv1.Status{status(task.Failed), status(task.Succeeded)})
	equal(t, "batch", len(o.take(5)), 0)
	o.put("a", status(task.Running))
	o.clear()
	equal(t, "batch", len(o.take(5)), 0)
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 4: 8 * time.Second, 5: 10 * time.Second, 1e6: 10 * time.Second,
	} {
		equal(t, fmt.Sprintf("after %d", failures), backoff(time.Second, 10*time.Second, failures), want)
	}
	for range 100 {
		if d := jitter(time.Second, 0.8); d < 800*time.Millisecond || d > time.Second {
			t.Errorf("jitter %v", d)
		}
	}
}
