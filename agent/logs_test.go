package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// ask has the server ask for logs and gives back the push that answers.
func (w *world) ask(r *ohmv1.LogRequest) *pushed {
	w.t.Helper()
	w.session().out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Logs{Logs: r}}
	w.pass(500 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pushes) == 0 {
		w.t.Fatal("nothing was pushed")
	}
	return w.pushes[len(w.pushes)-1]
}

// push checks what has come of a push so far.
func (w *world) push(p *pushed, stdout, stderr, err string, over bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.text["stdout"] != stdout || p.text["stderr"] != stderr || !strings.Contains(p.err, err) || (p.err == "") != (err == "") || p.over != over {
		w.t.Errorf("pushed %q, error %q, over %v; want %q and %q, error %q, over %v", p.text, p.err, p.over, stdout, stderr, err, over)
	}
}

func TestLogs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		w.m.write(a.Id, "stdout", "out\n")
		w.m.write(a.Id, "stderr", "err\n")
		p := w.ask(&ohmv1.LogRequest{Id: "r1", TaskId: a.Id})
		equal(t, "id", p.id, "r1")
		w.push(p, "out\n", "err\n", "", true)
		w.push(w.ask(&ohmv1.LogRequest{Id: "r2", TaskId: a.Id, Stream: "stderr"}), "", "err\n", "", true)
		w.push(w.ask(&ohmv1.LogRequest{Id: "r3", TaskId: "unknown"}), "", "", "node n1 knows no task unknown", true)
		w.push(w.ask(&ohmv1.LogRequest{Id: "r4", TaskId: "unknown", Follow: true}), "", "", "knows no task", true)
		// Released tasks still have their logs.
		w.m.exit(a.Id, 0)
		w.incremental([]string{a.Id})
		w.push(w.ask(&ohmv1.LogRequest{Id: "r5", TaskId: a.Id, Follow: true}), "out\n", "err\n", "", true)
	})
}

func TestLogsFollow(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		first, a := assignment("first", 4000), assignment("a", 100)
		w.complete(first, a)
		p := w.ask(&ohmv1.LogRequest{Id: "f", TaskId: a.Id, Follow: true})
		equal(t, "id before there is anything", p.id, "f")
		w.pass(time.Minute)
		w.push(p, "", "", "", false)
		w.m.exit(first.Id, 0)
		w.pass(time.Second) // it has started by now
		w.m.write(a.Id, "stdout", "one\n")
		w.pass(time.Second)
		w.push(p, "one\n", "", "", false)
		close(w.session().end) // a session more or less does not matter
		w.pass(10 * time.Second)
		w.m.write(a.Id, "stdout", "two\n")
		w.m.write(a.Id, "stderr", "oh\n")
		w.m.exit(a.Id, 0)
		w.complete(first, a)
		w.push(p, "one\ntwo\n", "oh\n", "", true)
	})
}

// TestLogsPosition: another request goes on where one was cut short, and what is not there any
// more is counted, once.
func TestLogsPosition(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		w.m.write(a.Id, "stdout", "0123456789")
		w.m.write(a.Id, "stderr", "abcdef")
		p := w.ask(&ohmv1.LogRequest{Id: "r1", TaskId: a.Id, From: &ohmv1.LogPosition{Stdout: 4, Stderr: 6}})
		w.push(p, "456789", "", "", true)
		equal(t, "place", p.at, map[string]int64{"stdout": 10})
		none := int64(0)
		p = w.ask(&ohmv1.LogRequest{Id: "r2", TaskId: a.Id, Tail: &none, Follow: true})
		w.m.write(a.Id, "stdout", "more")
		w.pass(time.Second)
		w.push(p, "more", "", "", false)
		w.m.locked(func() { w.m.rotated = 7 })
		p = w.ask(&ohmv1.LogRequest{Id: "r3", TaskId: a.Id, From: &ohmv1.LogPosition{Stdout: 4, Stderr: 6}, Follow: true})
		w.push(p, "789more", "", "", false)
		equal(t, "dropped", p.dropped["stdout"], 3)
		w.m.locked(func() { w.m.rotated = 20 })
		w.m.write(a.Id, "stdout", "-7890123456789")
		w.pass(time.Second)
		w.push(p, "789more"+"23456789", "", "", false)
		equal(t, "dropped", p.dropped["stdout"], 3+6)
		p = w.ask(&ohmv1.LogRequest{Id: "r4", TaskId: "unknown"})
		equal(t, "gone", p.gone, true)
	})
}

// TestLogsBig sees a large log in small chunks, both streams in turn.
func TestLogsBig(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		out, err := strings.Repeat("0123456789", 20000), strings.Repeat("x", 100000)
		w.m.write(a.Id, "stdout", out)
		w.m.write(a.Id, "stderr", err)
		p := w.ask(&ohmv1.LogRequest{Id: "big", TaskId: a.Id})
		w.push(p, out, err, "", true)
		equal(t, "turns", p.chunks[:6], []string{"stdout", "stderr", "stdout", "stderr", "stdout", "stderr"})
		equal(t, "chunks", len(p.chunks), (200000+chunkSize-1)/chunkSize+(100000+chunkSize-1)/chunkSize)
	})
}

// TestLogsReaderGone: a push ends when the server has had enough, even if nothing more
// is written; and the agent's end ends all.
func TestLogsReaderGone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.LogPushes = 1
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		w.m.write(a.Id, "stdout", "x")
		w.locked(func() { w.deaf = true })
		w.ask(&ohmv1.LogRequest{Id: "gone", TaskId: a.Id, Follow: true})
		w.locked(func() { w.deaf = false })
		p := w.ask(&ohmv1.LogRequest{Id: "first", TaskId: a.Id, Follow: true})
		w.push(p, "x", "", "", false) // so the one before has ended
		w.push(w.ask(&ohmv1.LogRequest{Id: "second", TaskId: a.Id}), "", "", "sends 1 logs already", true)
		w.halt()
		w.pass(time.Second)
		w.push(p, "x", "", "", true)
	})
}

// TestKeepLogsBytes: logs go when all together take too much, the oldest first; but none that is
// being read, none of what runs, and the newest stays whatever it takes.
func TestKeepLogsBytes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.KeepLogsBytes = 250
		w.start()
		w.complete()
		ids := map[string]string{}
		begin := func(name string, bytes int) {
			a := assignment(name, 100)
			ids[name] = a.Id
			w.incremental(nil, a)
			w.m.write(a.Id, "stdout", strings.Repeat("x", bytes))
		}
		end := func(name string) {
			w.m.exit(ids[name], 0)
			w.incremental([]string{ids[name]})
			w.pass(10 * pruneEvery)
		}
		have := func(names string) {
			t.Helper()
			got := ""
			for _, name := range []string{"a", "b", "c", "d", "e", "live"} {
				if w.m.hasLogs(ids[name]) {
					got += name
				}
			}
			equal(t, "logs of", got, names)
		}
		begin("live", 1000)
		for _, name := range []string{"a", "b"} {
			begin(name, 100)
			end(name)
		}
		have("ablive")
		begin("c", 100)
		w.m.locked(func() { w.m.logBytes = os.ErrDeadlineExceeded })
		end("c")
		have("abclive") // what c takes is not known yet
		w.m.locked(func() { w.m.logBytes = nil })
		w.pass(time.Minute)
		have("bclive")
		p := w.ask(&ohmv1.LogRequest{Id: "r", TaskId: ids["a"]})
		w.push(p, "", "", "the log has expired", true)
		if p.expired.IsZero() {
			t.Error("it is not said when it expired")
		}

		w.halt() // what they take is found out again
		w.start().complete(assignment("live", 100))
		release := make(chan struct{})
		w.m.locked(func() { w.m.reading = release })
		w.ask(&ohmv1.LogRequest{Id: "slow", TaskId: ids["b"]})
		begin("d", 100)
		end("d")
		have("bcdlive")
		w.m.locked(func() { w.m.reading = nil })
		close(release)
		w.pass(10 * pruneEvery)
		have("cdlive")

		begin("e", 500)
		end("e")
		have("elive")
	})
}

// TestKeepLogs keeps those of the newest tasks, for a while.
func TestKeepLogs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.KeepLogs, w.config.KeepLogsFor = 2, time.Hour
		w.start()
		w.complete()
		ids := map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			a := assignment(name, 100)
			ids[name] = a.Id
			w.incremental(nil, a)
			w.m.exit(a.Id, 0)
			w.incremental([]string{a.Id})
		}
		have := func(names string) {
			t.Helper()
			got := ""
			for _, name := range []string{"a", "b", "c"} {
				if w.m.hasLogs(ids[name]) {
					got += name
				}
			}
			equal(t, "logs of", got, names)
		}
		w.pass(pruneEvery)
		have("bc")
		w.halt() // which logs there are is not forgotten
		w.pass(59 * time.Minute)
		w.start().complete()
		have("bc")
		w.m.did()
		w.incremental(nil, assignment("c", 100)) // by a server that is confused
		equal(t, "calls", w.m.did(), nil)
		equal(t, "told", w.told(ids["c"]), []string{"Succeeded Exited"})
		w.incremental([]string{ids["c"]})
		w.pass(2 * time.Minute)
		have("")
		w.halt()
		w.start()
		for range 2 { // when they went is not forgotten, either
			p := w.ask(&ohmv1.LogRequest{Id: "r", TaskId: ids["b"]})
			w.push(p, "", "", "the log has expired", true)
			if ago := time.Since(p.expired); !p.gone || ago < 0 || ago > time.Hour {
				t.Errorf("gone %v, expired %v ago", p.gone, ago)
			}
			w.halt()
			w.start()
		}
		w.halt()
		w.config.KeepExpired = 1
		w.start()
		w.pass(time.Minute)
		w.complete()
		known := 0
		for _, name := range []string{"a", "b", "c"} {
			if p := w.ask(&ohmv1.LogRequest{Id: "r", TaskId: ids[name]}); !p.expired.IsZero() {
				known++
			}
		}
		equal(t, "of so many it is known when", known, 1)
	})
}
