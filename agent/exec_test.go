package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// execute has the server ask for a program, and says what has come of it.
func (w *world) execute(id string, start *ohmv1.ExecStart, typed ...*ohmv1.ExecInput) (said string, end *ohmv1.ExecEnd) {
	w.t.Helper()
	w.locked(func() { w.said, w.end, w.typed = "", nil, typed })
	w.session().out <- &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Exec{Exec: &ohmv1.ExecRequest{Id: "x: ", TaskId: id, Start: start}}}
	w.pass(3 * execAlive)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said, w.end
}

func TestExec(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Execs = 1
		w.start()
		a := assignment("a", 100)
		w.complete(a)
		w.m.exec = func(_ context.Context, e driver.Exec) (int, error) {
			size := driver.Size{}
			if e.Terminal {
				size = <-e.Resize
			}
			var typed []byte
			if e.Stdin != nil {
				typed, _ = io.ReadAll(e.Stdin)
			}
			fmt.Fprintf(e.Stdout, "%s %s %d×%d %q ", e.Container, e.Command, size.Columns, size.Rows, typed)
			fmt.Fprint(e.Stderr, "done")
			return 42, nil
		}
		said, end := w.execute(a.Id, &ohmv1.ExecStart{Container: "c", Command: []string{"cmd"}, Stdin: true, Terminal: true, Size: &ohmv1.TerminalSize{Columns: 90, Rows: 30}},
			&ohmv1.ExecInput{Stdin: []byte("some ")}, &ohmv1.ExecInput{Stdin: []byte("input")}, &ohmv1.ExecInput{End: true})
		equal(t, "said", said, `x: c [cmd] 90×30 "some input" done`)
		equal(t, "code", end.GetCode(), 42)
		said, _ = w.execute(a.Id, &ohmv1.ExecStart{Command: []string{"cmd"}}, &ohmv1.ExecInput{Stdin: []byte(strings.Repeat("unwanted", 1000))})
		equal(t, "said without input", said, `x:  [cmd] 0×0 "" done`)
		_, end = w.execute("unknown", &ohmv1.ExecStart{Command: []string{"cmd"}})
		equal(t, "not running", end.GetNotRunning(), true)

		// One of which the caller goes ends, even if it does not read what that one has sent.
		ended := 0
		w.m.exec = func(ctx context.Context, e driver.Exec) (int, error) {
			fmt.Fprint(e.Stdout, "go")
			<-ctx.Done()
			w.m.locked(func() { ended++ })
			return 0, ctx.Err()
		}
		_, end = w.execute(a.Id, &ohmv1.ExecStart{Command: []string{"cmd"}, Stdin: true}, &ohmv1.ExecInput{Stdin: []byte("nobody reads this")})
		w.m.locked(func() { equal(t, "ended programs", ended, 1) })
		equal(t, "end", end, (*ohmv1.ExecEnd)(nil))

		// They are bounded, and end with the agent.
		w.m.exec = func(ctx context.Context, _ driver.Exec) (int, error) {
			<-ctx.Done()
			w.m.locked(func() { ended++ })
			return 0, ctx.Err()
		}
		w.execute(a.Id, &ohmv1.ExecStart{Command: []string{"cmd"}})
		_, end = w.execute(a.Id, &ohmv1.ExecStart{Command: []string{"cmd"}})
		equal(t, "one too many", strings.Contains(end.GetError(), "runs 1 such programs already"), true)
		w.halt()
		w.pass(time.Second)
		w.m.locked(func() { equal(t, "ended programs", ended, 2) })
	})
}
