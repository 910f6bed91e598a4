package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// nobody is an address of this machine where nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const helloFile = "job: hello\nkind: batch\ngroups:\n  - name: main\n    count: 4\n    cpu: 100m\n    memory: 64Mi\n    command: [sh, -c, \"echo hello\"]\n"

// Every verb that needs a cell says so within moments where there is none.
func TestNobodyListens(t *testing.T) {
	address := nobody(t)
	for _, args := range [][]string{
		{"run", write(t, "hello.yaml", helloFile)}, {"run", write(t, "hello.yaml", helloFile), "--wait", "--timeout", "1h"},
		{"status"}, {"status", "hello"}, {"logs", "hello"}, {"stop", "hello"}, {"stop", "--all", "--wait"}, {"explain", "hello"},
		{"job", "list"}, {"job", "get", "x"}, {"node", "list"}, {"node", "get", "x"}, {"node", "drain", "x"}, {"node", "resume", "x"},
		{"task", "list"}, {"scheduler", "list"}, {"conflict", "list"}, {"txn", "get", "x"}, {"audit"}, {"store", "doctor"}, {"store", "doctor", "--cure"},
	} {
		start := time.Now()
		r := ohm(t, address, call{args: args})
		want := "ohm: no cell answers at " + address + " (connection refused); start one with `ohm dev`, or give --address\n"
		if r.code != exitUnreachable || r.stdout != "" || r.stderr != want {
			t.Errorf("%v: %s", args, r.text(""))
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%v took %s", args, took)
		}
	}
}

// What listens but is no cell is no cell.
func TestNotACell(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-something\r\n"))
			_, _ = io.Copy(io.Discard, conn) // until the client has had enough
			conn.Close()
		}
	}()
	defer func() { listener.Close(); <-done }()
	r := ohm(t, listener.Addr().String(), call{args: []string{"status"}})
	if r.code != exitUnreachable || !strings.HasPrefix(r.stderr, "ohm: no cell answers at "+listener.Addr().String()+" (what listens there does not speak gRPC)") {
		t.Errorf("got %s", r.text(""))
	}
}

// A server's answer becomes the exit code and the message of the table.
func TestAnswers(t *testing.T) {
	for code, want := range map[codes.Code]struct {
		exit exitCode
		text string
	}{
		codes.InvalidArgument:    {exitUsage, "ohm: no way\n"},
		codes.OutOfRange:         {exitUsage, "ohm: no way\n"},
		codes.ResourceExhausted:  {exitUsage, "ohm: no way\n"},
		codes.Unimplemented:      {exitUsage, "ohm: the cell at CELL does not know this request; `ohm version` shows both releases\n"},
		codes.Unauthenticated:    {exitUsage, "ohm: the cell at CELL refuses this caller: no way; give --token-file\n"},
		codes.PermissionDenied:   {exitUsage, "ohm: the cell at CELL refuses this caller: no way; give --token-file\n"},
		codes.Unavailable:        {exitUnreachable, "ohm: the cell at CELL could not answer: no way; try again\n"},
		codes.DeadlineExceeded:   {exitUnreachable, "ohm: the cell at CELL did not answer in time; try again\n"},
		codes.Internal:           {exitUnreachable, "ohm: the cell at CELL failed: no way; its log says more\n"},
		codes.Unknown:            {exitUnreachable, "ohm: the cell at CELL failed: no way; its log says more\n"},
		codes.DataLoss:           {exitUnreachable, "ohm: the cell at CELL failed: no way; its log says more\n"},
		codes.NotFound:           {exitNotFound, "ohm: no way\n"},
		codes.AlreadyExists:      {exitConflict, "ohm: no way\n"},
		codes.Aborted:            {exitConflict, "ohm: no way\n"},
		codes.FailedPrecondition: {exitConflict, "ohm: no way\n"},
		codes.Canceled:           {exitCancelled, "ohm: no way\n"},
	} {
		t.Run(code.String(), func(t *testing.T) {
			f := startFake(t, &fake{failure: status.Error(code, "no\x1bway")})
			r := ohm(t, f.address, call{args: []string{"scheduler", "list"}})
			if got := strings.ReplaceAll(r.stderr, f.address, "CELL"); r.code != want.exit || got != want.text || r.stdout != "" {
				t.Errorf("got %s", r.text(f.address))
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	f := startFake(t, fullCell())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := ohm(t, f.address, call{args: []string{"status"}, ctx: ctx}); r.code != exitCancelled || r.stderr != "ohm: cancelled\n" {
		t.Errorf("got %s", r.text(f.address))
	}
}

// Every code has one row, and no answer of a server has two.
func TestExitTable(t *testing.T) {
	seen := map[codes.Code]bool{}
	for i, row := range exitTable() {
		if int(row.code) != i || row.meaning == "" {
			t.Errorf("row %d is %+v", i, row)
		}
		for _, c := range row.answers {
			if seen[c] {
				t.Errorf("%v stands twice", c)
			}
			seen[c] = true
		}
	}
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if !seen[c] {
			t.Errorf("%v has no exit code", c)
		}
	}
}

// A command line that is not understood is refused with 2, before any cell is asked.
func TestUsage(t *testing.T) {
	address := nobody(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"stauts"}, "ohm: there is no `ohm stauts`; did you mean `ohm status`?\n"},
		{[]string{"stat"}, "ohm: there is no `ohm stat`; did you mean `ohm status`?\n"},
		{[]string{"frobnicate"}, "ohm: there is no `ohm frobnicate`; see `ohm --help`\n"},
		{[]string{"job", "lst"}, "ohm: there is no `ohm job lst`; did you mean `ohm job list`?\n"},
		{[]string{"job", "l"}, "ohm: there is no `ohm job l`; see `ohm job --help`\n"},
		{[]string{"status", "--nope"}, "ohm: unknown flag: --nope; see `ohm status --help`\n"},
		{[]string{"run"}, "ohm: `ohm run` needs a job file, or - for the standard input; see `ohm run --help`\n"},
		{[]string{"logs"}, "ohm: `ohm logs` needs one task: JOB, JOB/GROUP or JOB/GROUP/INDEX; see `ohm logs --help`\n"},
		{[]string{"logs", "a/b/c"}, "ohm: \"a/b/c\" is not JOB, JOB/GROUP or JOB/GROUP/INDEX\n"},
		{[]string{"logs", "a/b/-1"}, "ohm: \"a/b/-1\" is not JOB, JOB/GROUP or JOB/GROUP/INDEX\n"},
		{[]string{"logs", "a/b/1/2"}, "ohm: \"a/b/1/2\" is not JOB, JOB/GROUP or JOB/GROUP/INDEX\n"},
		{[]string{"logs", "a//1"}, "ohm: \"a//1\" is not JOB, JOB/GROUP or JOB/GROUP/INDEX\n"},
		{[]string{"logs", "a", "--stream", "both"}, "ohm: --stream \"both\" is not stdout or stderr\n"},
		{[]string{"logs", "a", "--attempt", "0"}, "ohm: --attempt 0: attempts are numbered from 1\n"},
		{[]string{"logs", "a", "-o", "yaml"}, "ohm: `ohm logs` has no output format \"yaml\"; it has text, json\n"},
		{[]string{"status", "-o", "xml"}, "ohm: `ohm status` has no output format \"xml\"; it has table, wide, json, yaml, name\n"},
		{[]string{"status", ""}, "ohm: `ohm status` got an empty name; see `ohm status --help`\n"},
		{[]string{"stop"}, "ohm: `ohm stop` needs the names of jobs, or --all; not both\n"},
		{[]string{"stop", "web", "--all"}, "ohm: `ohm stop` needs the names of jobs, or --all; not both\n"},
		{[]string{"stop", "web", "--timeout", "1s"}, "ohm: --timeout is a positive time for --wait, such as 1m\n"},
		{[]string{"run", "-", "--timeout", "1s"}, "ohm: --timeout is a positive time for --wait, such as 5m\n"},
		{[]string{"run", "-", "--wait", "--timeout", "0s"}, "ohm: --timeout is a positive time for --wait, such as 5m\n"},
		{[]string{"node", "drain", "n", "--timeout", "1s"}, "ohm: --timeout is a positive time for --wait, such as 10m\n"},
		{[]string{"job", "get", "a", "b"}, "ohm: `ohm job get` takes the name of a job, and \"b\" is too much; see `ohm job get --help`\n"},
		{[]string{"audit", "now"}, "ohm: `ohm audit` takes no arguments, but got \"now\"; see `ohm audit --help`\n"},
		{[]string{"conflict", "list", "--limit", "0"}, "ohm: --limit 0 is not a positive number\n"},
		{[]string{"status", "--address", "nowhere"}, "ohm: --address \"nowhere\" is not host:port, such as 127.0.0.1:7400\n"},
		{[]string{"version", "--address", "nowhere"}, "ohm: --address \"nowhere\" is not host:port, such as 127.0.0.1:7400\n"},
		{[]string{"status", "--address", "127.0.0.1:"}, "ohm: --address \"127.0.0.1:\" is not host:port, such as 127.0.0.1:7400\n"},
		{[]string{"run", "/does/not/exist.yaml"}, "ohm: the job file /does/not/exist.yaml cannot be read: no such file or directory\n"},
		{[]string{"run", "/"}, "ohm: the job file / cannot be read: is a directory\n"},
		{[]string{"status", "--token-file", "/does/not/exist"}, "ohm: --token-file: open /does/not/exist: no such file or directory\n"},
		{[]string{"status", "--tls-ca", "/does/not/exist"}, "ohm: --tls-ca: open /does/not/exist: no such file or directory\n"},
	} {
		if r := ohm(t, address, call{args: c.args}); r.code != exitUsage || r.stdout != "" || r.stderr != c.want {
			t.Errorf("%v: %s", c.args, r.text(address))
		}
	}
}

// A noun without a verb shows its help, and is not a success.
func TestNounAlone(t *testing.T) {
	for _, args := range [][]string{{}, {"job"}, {"node"}} {
		r := ohm(t, nobody(t), call{args: args})
		if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "Usage:") || !strings.Contains(r.stderr, " needs a verb\n") {
			t.Errorf("%v: %s", args, r.text(""))
		}
	}
}

// Names are exact: a job or node that is not there is not found, whatever its
// neighbours are called; the nearest is only a hint.
func TestUnknownNames(t *testing.T) {
	f := startFake(t, fullCell())
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "hell"}, "ohm: there is no job \"hell\" in namespace \"default\"; did you mean \"hello\"?\n"},
		{[]string{"status", "hello1"}, "ohm: there is no job \"hello1\" in namespace \"default\"; did you mean \"hello\"?\n"},
		{[]string{"status", "web"}, "ohm: there is no job \"web\" in namespace \"default\"; there is one in namespace \"web\"\n"},
		{[]string{"status", "zzzzzz"}, "ohm: there is no job \"zzzzzz\" in namespace \"default\"; `ohm status` lists all jobs\n"},
		{[]string{"status", "xxxxxx", "zzzzzz"}, "ohm: there is no job \"xxxxxx\", \"zzzzzz\" in namespace \"default\"; `ohm status` lists all jobs\n"},
		{[]string{"stop", "trai"}, "ohm: there is no job \"trai\" in namespace \"default\"; did you mean \"train\"?\n"},
		{[]string{"stop", "hello", "trai"}, "ohm: there is no job \"trai\" in namespace \"default\"; did you mean \"train\"?\n"},
		{[]string{"explain", "trian"}, "ohm: there is no job \"trian\" in namespace \"default\"; did you mean \"train\"?\n"},
		{[]string{"job", "get", "helo"}, "ohm: there is no job \"helo\" in namespace \"default\"; did you mean \"hello\"?\n"},
		{[]string{"job", "get", "hello", "-n", "web"}, "ohm: there is no job \"hello\" in namespace \"web\"; there is one in namespace \"default\"\n"},
		{[]string{"logs", "helo/main/0"}, "ohm: there is no job \"helo\" in namespace \"default\"; did you mean \"hello\"?\n"},
		{[]string{"task", "list", "helo"}, "ohm: there is no job \"helo\" in namespace \"default\"; did you mean \"hello\"?\n"},
		{[]string{"task", "list", "--node", "n"}, "ohm: there is no node \"n\"; did you mean \"n7\"?\n"},
		{[]string{"node", "get", "n8"}, "ohm: there is no node \"n8\"; did you mean \"n7\"?\n"},
		{[]string{"node", "drain", "development"}, "ohm: there is no node \"development\"; `ohm node list` lists all nodes\n"},
		{[]string{"node", "resume", "de"}, "ohm: there is no node \"de\"; did you mean \"dev\"?\n"},
		{[]string{"txn", "get", "T"}, "ohm: transaction T is beyond retention\n"},
	} {
		if r := ohm(t, f.address, call{args: c.args}); r.code != exitNotFound || r.stdout != "" || r.stderr != c.want {
			t.Errorf("%v: %s", c.args, r.text(f.address))
		}
	}
	// Those that are there are still shown.
	r := ohm(t, f.address, call{args: []string{"status", "hello", "nope", "-o", "name"}})
	if r.code != exitNotFound || r.stdout != "hello\n" || !strings.Contains(r.stderr, `no job "nope"`) {
		t.Errorf("got %s", r.text(f.address))
	}
}

// Field case 7: of web, web1 and web10, web is only ever web; once it is gone, nothing
// else answers to its name.
func TestCase7ExactNames(t *testing.T) {
	f := &fake{}
	for _, name := range []string{"web", "web1", "web10"} {
		f.jobs = append(f.jobs, &ohmv1.GetJobResponse{Status: &ohmv1.JobStatus{Namespace: "default", Job: name, Kind: "service", State: "Running"}})
	}
	startFake(t, f)
	if r := ohm(t, f.address, call{args: []string{"status", "web", "-o", "name"}}); r.code != exitDone || r.stdout != "web\n" {
		t.Errorf("got %s", r.text(f.address))
	}
	if r := ohm(t, f.address, call{args: []string{"stop", "web", "-o", "name"}}); r.code != exitDone || r.stdout != "web\n" {
		t.Errorf("got %s", r.text(f.address))
	}
	f.jobs = f.jobs[1:]
	for _, verb := range []string{"status", "stop", "explain", "logs"} {
		r := ohm(t, f.address, call{args: []string{verb, "web"}})
		if r.code != exitNotFound || r.stdout != "" || r.stderr != "ohm: there is no job \"web\" in namespace \"default\"; did you mean \"web1\"?\n" {
			t.Errorf("%s: %s", verb, r.text(f.address))
		}
	}
}
