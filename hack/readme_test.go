package hack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ohmcell/ohm/pkg/config"
)

// command is one command of a page, with what the page says that it prints.
type command struct {
	line int
	text string
	want []string
}

// commands are those of a page's console blocks: a line that begins with "$ ", lines that
// begin with "> " directly below it, and then the output. "…" in the output stands for
// any text, and on a line of its own for any lines.
func commands(page string) (all []command) {
	inside, open := false, false
	for n, line := range strings.Split(page, "\n") {
		switch text, is := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case is:
			all, open = append(all, command{line: n + 1, text: text}), true
		case len(all) == 0:
		default:
			last := &all[len(all)-1]
			if more, is := strings.CutPrefix(line, "> "); is && open {
				last.text += "\n" + more
				continue
			}
			open = false
			last.want = append(last.want, line)
		}
	}
	return all
}

// plain takes out of an output what differs from run to run and machine to machine:
// times, ids, revisions, what the machine has, how wide columns are.
func plain(line string) string {
	for _, r := range []struct{ pattern, with string }{
		{`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`, "TIME"},
		{`\b[0-9A-HJKMNP-TV-Z]{26}\b`, "ID"},
		{`\b(\d+(\.\d+)?(h|m|s|ms))+ ago\b`, "AGO"},
		{`\b\d+(\.\d+)?m?s\b`, "SECONDS"},
		{`(\brevisions?"?:? ?)\d+( to \d+: \d+)?`, "${1}N"},
		{`\b\d+ (transactions|placements)\b`, "N $1"},
		{`/\d+(\.\d+)?[KMGT]i\b`, "/BYTES"},
		{`m/\d+(\.\d+)?m?\b`, "m/CORES"},
		{`127\.0\.0\.1:\d+`, "ADDRESS"},
		{`\s+`, " "},
	} {
		line = regexp.MustCompile(r.pattern).ReplaceAllString(line, r.with)
	}
	return strings.TrimSpace(line)
}

// same says whether an output is what the page says.
func same(want []string, got string) bool {
	const any = "…"
	pattern := `^`
	for _, line := range want {
		if strings.TrimSpace(line) == any {
			pattern += `(?:.*\n)*?`
			continue
		}
		parts := strings.Split(line, any)
		for i, part := range parts {
			if i > 0 {
				pattern += `.*`
			}
			pattern += regexp.QuoteMeta(plain(part))
		}
		pattern += `\n`
	}
	text := ""
	for line := range strings.Lines(strings.TrimRight(got, "\n")) {
		text += plain(line) + "\n"
	}
	return regexp.MustCompile(pattern + `$`).MatchString(text)
}

// reader is somebody who follows a page with a shell.
type reader struct {
	t       *testing.T
	dir     string   // for the data of their cell; they stand at the repository's root
	env     []string // with ohm on the path
	address string   // of their cell, in place of the default one that pages name
	status  int      // of the last command
}

func newReader(t *testing.T, program string) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), address: config.DefaultAddress}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "OHM_") && !strings.HasPrefix(e, "HOME=") && !strings.HasPrefix(e, "XDG_") && !strings.HasPrefix(e, "PATH=") {
			r.env = append(r.env, e)
		}
	}
	// Go itself stays where it is.
	r.env = append(r.env, "HOME="+r.dir, "GOPATH="+goEnv(t, "GOPATH"), "GOCACHE="+goEnv(t, "GOCACHE"), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	return r
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// do does one command and says what it printed.
func (r *reader) do(c command) string {
	r.t.Helper()
	if strings.HasPrefix(c.text, "ohm dev") {
		return r.dev(c.text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also in a cleanup
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", fmt.Sprintf("(exit %d)\n%s", r.status, strings.ReplaceAll(c.text, config.DefaultAddress, r.address)))
	cmd.Dir, cmd.Env = "..", r.env
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		r.t.Errorf("line %d: %s: has not ended within a minute (%v)", c.line, c.text, err)
	}
	r.status = max(cmd.ProcessState.ExitCode(), 0)
	return string(out)
}

// dev begins a cell of the reader's own on a port that the kernel chooses, and has every
// later command speak to it.
func (r *reader) dev(text string) string {
	r.t.Helper()
	cmd := exec.Command("bash", "-c", "exec "+text+` --data-dir "$0" --address 127.0.0.1:0 --node laptop`, filepath.Join(r.dir, "cell"))
	cmd.Dir, cmd.Env = "..", r.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	first := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewReader(out)
		line, _ := lines.ReadString('\n')
		first <- line
		_, _ = io.Copy(io.Discard, lines)
	})
	r.t.Cleanup(func() { // nothing of the cell may stay
		r.do(command{text: "ohm stop --all"})
		quiet := `for i in $(seq 300); do ohm task list | grep -qE ' (Assigned|Starting|Running|Stopping) ' || exit 0; sleep 0.1; done; exit 1`
		if said := r.do(command{text: quiet}); r.status != 0 {
			r.t.Errorf("the page leaves tasks that do not end: %s", said)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		reading.Wait()
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("ohm dev ended with %v\n%s", err, said.String())
		}
		kill.Stop()
	})
	select {
	case line := <-first:
		if address, ready := strings.CutPrefix(strings.TrimSpace(line), "ready "); ready {
			r.address = address
			r.env = append(r.env, "OHM_ADDRESS="+address)
		}
		return line
	case <-time.After(time.Minute):
		r.t.Fatalf("ohm dev is not ready after a minute: %s", said.String())
	}
	return ""
}

// TestPages follows README and quick start from the first command to the last.
func TestPages(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ohm")
	build := exec.Command("go", "build", "-o", program, "./cmd/ohm")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building ohm: %v\n%s", err, out)
	}
	for _, page := range []string{"README.md", "docs/quickstart.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", page))
			if err != nil {
				t.Fatal(err)
			}
			all := commands(string(text))
			if len(all) < 5 {
				t.Fatalf("%s has only %d commands in console blocks", page, len(all))
			}
			r := newReader(t, program)
			for _, c := range all {
				if got := r.do(c); !same(c.want, got) {
					t.Errorf("%s:%d: $ %s\nprints\n%s\nand the page says\n%s", page, c.line, c.text, got, strings.Join(c.want, "\n"))
				}
			}
		})
	}
}

func TestPagesCanFail(t *testing.T) {
	page := "text\n```sh\n$ not this\n```\n```console\n$ cat > a <<EOF\n> x\n> EOF\n$ ohm run\na  1/1  0.2s\n> b\n```\n"
	all := commands(page)
	if len(all) != 2 || all[0].text != "cat > a <<EOF\nx\nEOF" || all[1].line != 9 || strings.Join(all[1].want, "|") != "a  1/1  0.2s|> b" {
		t.Errorf("read %+v", all)
	}
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"hello  batch  4/4 succeeded  1.9s", "hello  batch  4/4 succeeded  0.2s\n", true},
		{"hello  batch  4/4 succeeded  1.9s", "hello  batch  3/4 succeeded  0.2s\n", false},
		{"hello  batch  4/4 succeeded  1.9s", "", false},
		{"", "", true},
		{"a", "a\nb\n", false},
		{"a\n…", "a\nb\nc\n", true},
		{"a\n…\nc", "a\nb\n", false},
		{`{"job":"a",…}`, `{"job":"a","kind":"batch"}`, true},
		{`{"job":"a",…}`, `{"job":"b","kind":"batch"}`, false},
		{"n  Ready  150m/2  96Mi/8Gi  3s ago", "n   Ready  150m/16  96Mi/23.5Gi  1m2s ago", true},
		{"n  Ready  150m/2  96Mi/8Gi  3s ago", "n   Ready  160m/16  96Mi/23.5Gi  1m2s ago", false},
		{"txn 01M8PK81BEE69NNEGVWB740B3N", "txn 01M8PK7ZGN5DK43PTAXZNKVHSC", true},
	} {
		want := strings.Split(c.want, "\n")
		if c.want == "" {
			want = nil
		}
		if same(want, c.got) != c.same {
			t.Errorf("%q and %q: same is not %v", c.want, c.got, c.same)
		}
	}
}
