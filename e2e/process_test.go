package e2e

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is for what takes moments on an idle machine.
const patience = 2 * time.Minute

// within polls until ok holds.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// shortDir is a folder whose path leaves room for a unix socket, gone after the test.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ohm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// environment is what the programs get: nothing of Ohm's from outside.
func environment(more ...string) []string {
	env := []string{"OHM_CONFIG=" + os.DevNull}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "OHM_") {
			env = append(env, e)
		}
	}
	return append(env, more...)
}

// process is a program that runs beside the test.
type process struct {
	t       *testing.T
	name    string
	cmd     *exec.Cmd
	out     string // file
	err     string // file
	ended   chan struct{}
	outcome error
}

// start starts one of the programs under test. After the test it is gone.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	return spawn(t, exec.Command(filepath.Join(programs, program), args...))
}

// spawn starts a command. Its output goes to files: its own children may keep them open
// for longer than it lives.
func spawn(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: strings.Join(append([]string{filepath.Base(cmd.Path)}, cmd.Args[1:]...), " "), cmd: cmd, ended: make(chan struct{})}
	files := t.TempDir()
	p.out, p.err = filepath.Join(files, "stdout"), filepath.Join(files, "stderr")
	if cmd.Env == nil {
		cmd.Env = environment()
	}
	for _, f := range []struct {
		path string
		to   *io.Writer
	}{{p.out, &cmd.Stdout}, {p.err, &cmd.Stderr}} {
		file, err := os.Create(f.path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		*f.to = file
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		p.outcome = cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s\nsaid:\n%s%s", p.name, tail(p.stdout()), tail(p.stderr()))
		}
	})
	return p
}

// tail is the end of a long text.
func tail(s string) string {
	if most := 8 << 10; len(s) > most {
		return "…" + s[len(s)-most:]
	}
	return s
}

func contents(file string) string {
	raw, _ := os.ReadFile(file) // empty until there is something
	return string(raw)
}

func (p *process) stdout() string { return contents(p.out) }
func (p *process) stderr() string { return contents(p.err) }

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// word waits for a line "<key> <value>" on stdout.
func (p *process) word(key string) (value string) {
	p.t.Helper()
	within(p.t, patience, p.name+" says "+key, func() bool {
		for line := range strings.Lines(p.stdout()) {
			if v, ok := strings.CutPrefix(line, key+" "); ok && strings.HasSuffix(v, "\n") {
				value = strings.TrimSpace(v)
				return true
			}
		}
		if !p.running() {
			p.t.Fatalf("%s ended before it said %q: %v", p.name, key, p.outcome)
		}
		return false
	})
	return value
}

// kill ends the process, and only it, at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// terminate asks the process to end and returns its exit code.
func (p *process) terminate() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return p.code()
}

// code waits for the end and returns the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.name)
		return -1
	}
}

// answer is what one call of a program gave.
type answer struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// call runs a program to its end.
func call(t *testing.T, program string, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, program), args...)
	cmd.Env = environment()
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil || cmd.ProcessState == nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, stderr.String())
	}
	return answer{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), time.Since(began)}
}
