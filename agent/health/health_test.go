package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBad = errors.New("bad")

// Answers are written down as letters, + for a good one: what follows is the readiness, or
// D for dead, after each.
func TestState(t *testing.T) {
	r := Rules{Failures: 3, StartPeriod: 10 * time.Second, Interval: time.Second}
	for _, c := range []struct {
		name, answers string
		ready         Readiness // before
		want          string    // after each answer: ? unknown, n not ready, y ready
	}{
		{"the first good answer makes it ready", "-+", NotReady, "ny"},
		{"few bad ones do not matter", "+--+--+", NotReady, "yyyyyyy"},
		{"three in a row do", "+---+", NotReady, "yyyny"},
		{"it is not ready from the start", "----", NotReady, "nnnn"},
		{"what was ready before stays it", "--+", Ready, "yyy"},
		{"and not for ever", "---", Ready, "yyn"},
		{"nobody knows it", "--", Unknown, "??"},
		{"nobody knows it, it is ready", "-+", Unknown, "?y"},
		{"nobody knows it, it is not", "---", Unknown, "??n"},
	} {
		s, got := State{Ready: c.ready}, ""
		for _, a := range c.answers {
			s = s.Readied(r, map[rune]error{'-': errBad}[a])
			got += map[Readiness]string{Unknown: "?", NotReady: "n", Ready: "y"}[s.Ready]
			if (s.Why != "") != (s.Ready == NotReady && c.ready != NotReady || strings.Contains(c.answers, "+---") && s.Ready == NotReady) {
				t.Errorf("%s: %s, why %q", c.name, got, s.Why)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		name, answers string
		first         time.Duration // the task's age at the first answer; one second more at each
		want          string        // D from when it is dead
	}{
		{"three in a row", "---", time.Minute, "..D"},
		{"for good", "---++", time.Minute, "..DDD"},
		{"not in a row", "--+--+", time.Minute, "......"},
		{"in the start period they do not count", "-------------", 0, "............D"},
		{"nor do those that began there", "-----", 8 * time.Second, "....D"},
	} {
		s, got := State{Ready: Ready}, ""
		for i, a := range c.answers {
			s = s.Lived(r, c.first+time.Duration(i)*time.Second, map[rune]error{'-': errBad}[a])
			got += map[bool]string{false: ".", true: "D"}[s.Dead]
		}
		if got != c.want || s.Ready != Ready || s.Dead && s.Why != "not live: bad" {
			t.Errorf("%s: %s, want %s; %+v", c.name, got, c.want, s)
		}
	}
}

// Watch probes at its interval, gives up a probe that takes too long, tells changes only,
// and ends with its context or the task's death.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var told []string
		var mu sync.Mutex // guards the two below
		answer, probes := errBad, 0
		ready := &Check{Rules{Interval: time.Second, Timeout: 500 * time.Millisecond, Failures: 2}, func(ctx context.Context) error {
			mu.Lock()
			probes++
			now := answer
			mu.Unlock()
			if now == nil || now == errBad {
				return now
			}
			<-ctx.Done() // it hangs
			return ctx.Err()
		}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, Verdict{Ready: NotReady}, time.Now(), ready, nil, make(chan struct{}, 1), func(v Verdict) {
				told = append(told, string(v.Ready))
			})
		}()
		step := func(next error, d time.Duration, want string) {
			t.Helper()
			mu.Lock()
			answer = next
			mu.Unlock()
			time.Sleep(d)
			synctest.Wait()
			if got := strings.Join(told, " "); got != want {
				t.Fatalf("told %q, want %q", got, want)
			}
		}
		step(errBad, 5*time.Second, "")
		if probes < 4 || probes > 6 {
			t.Errorf("%d probes in five seconds", probes)
		}
		step(nil, 2*time.Second, "yes")
		step(errBad, 1*time.Second, "yes")
		step(nil, 5*time.Second, "yes")
		step(io.EOF, 4*time.Second, "yes no")
		step(nil, 3*time.Second, "yes no yes")
		cancel()
		<-done
	})
	synctest.Test(t, func(t *testing.T) {
		live := &Check{Rules{Interval: time.Second, Timeout: time.Second, Failures: 3, StartPeriod: 10 * time.Second}, func(context.Context) error { return errBad }}
		ready := &Check{Rules{Interval: time.Second, Timeout: time.Second, Failures: 3}, func(context.Context) error { return nil }}
		began := time.Now()
		var told []Verdict
		Watch(t.Context(), Verdict{}, began, ready, live, make(chan struct{}, 1), func(v Verdict) { told = append(told, v) })
		if took := time.Since(began); took < 12*time.Second || took > 14*time.Second {
			t.Errorf("it was dead after %v", took)
		}
		if len(told) != 2 || told[0].Ready != Ready || told[0].Dead || !told[1].Dead || told[1].Ready != Ready {
			t.Errorf("told %+v", told)
		}
	})
}

// A probe of HTTP reads no more than a bounded header, follows nothing, and says what is wrong.
func TestHTTP(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"/ok":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") },
		"/moved": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/bad", http.StatusFound) },
		"/bad":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) },
		"/endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
		"/header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
		"/slow":   func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handlers[r.URL.Path](w, r) }))
	defer s.Close()
	port := int32(s.Listener.Addr().(*net.TCPAddr).Port)
	for path, want := range map[string]string{
		"/ok": "", "/moved": "", "/endless": "",
		"/bad": "GET /bad of port 1: status 503", "/slow": "GET /slow of port 1: no answer in time",
		"/header": "GET /header of port 1: ",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if path == "/slow" {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		err := HTTP(Localhost, port, path)(ctx)
		cancel()
		got := ""
		if err != nil {
			got = strings.Replace(err.Error(), fmt.Sprint("port ", port), "port 1", 1)
		}
		if got != want && (path != "/header" || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if err := TCP(Localhost, port)(t.Context()); err != nil {
		t.Error(err)
	}
	s.Close()
	want := fmt.Sprintf("connecting to port %d: connect: connection refused", port)
	if err := TCP(Localhost, port)(t.Context()); err == nil || err.Error() != want {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestExec(t *testing.T) {
	run := func(code int, said string, err error) error {
		return Exec(func(_ context.Context, _ []string, out io.Writer) (int, error) {
			for range 1000 {
				fmt.Fprint(out, said)
			}
			return code, err
		}, []string{"check"})(t.Context())
	}
	if err := run(0, "fine", nil); err != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"check exited with code 3":           run(3, "", nil),
		"check exited with code 1: the disk": run(1, "the disk\nis full\n", nil),
		"running check: bad":                 run(0, "", errBad),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := run(1, "x", nil); len(err.Error()) > 2*maxOutput {
		t.Errorf("it keeps all that was said: %d bytes", len(err.Error()))
	}
}
