package main

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

func TestLogs(t *testing.T) {
	f := startFake(t, fullCell())
	for _, c := range []struct {
		args []string
		want *ohmv1.LogsRequest
	}{
		{[]string{"hello"}, &ohmv1.LogsRequest{Job: "hello", AnyIndex: true}},
		{[]string{"hello/main"}, &ohmv1.LogsRequest{Job: "hello", Group: "main", AnyIndex: true}},
		{[]string{"hello/main/0"}, &ohmv1.LogsRequest{Job: "hello", Group: "main"}},
		{[]string{"hello/main/12", "-f", "--attempt", "3", "--stream", "stderr"}, &ohmv1.LogsRequest{Job: "hello", Group: "main", Index: 12, Attempt: 3, Stream: "stderr", Follow: true}},
	} {
		r := ohm(t, f.address, call{args: append([]string{"logs"}, c.args...)})
		if r.code != exitDone || r.stdout != "one\ntwo\n" || r.stderr != "" {
			t.Errorf("%v: %s", c.args, r.text(f.address))
		}
		c.want.Namespace = "default"
		if diff := cmp.Diff(c.want, f.requests[len(f.requests)-1], protocmp.Transform()); diff != "" {
			t.Errorf("%v: %s", c.args, diff)
		}
	}
	r := ohm(t, f.address, call{args: []string{"logs", "hello", "-o", "json"}})
	if want := `{"id":"","stream":"stdout","data":"b25lCg==","error":"","offset":0,"dropped":0,"version":0,"attempt":0,"gone":false,"note":""}` + "\n"; !strings.HasPrefix(r.stdout, want) {
		t.Errorf("got %s", r.text(f.address))
	}
	f.logs = append(f.logs, &ohmv1.LogChunk{Error: "node n7 is gone"})
	r = ohm(t, f.address, call{args: []string{"logs", "hello"}})
	if r.code != exitUnreachable || r.stdout != "one\ntwo\n" || r.stderr != "ohm: the log ends here: node n7 is gone\n" {
		t.Errorf("got %s", r.text(f.address))
	}
}

// TestLogsGoOn: a log that is followed is asked for again where it broke off.
func TestLogsGoOn(t *testing.T) {
	f := startFake(t, fullCell())
	f.logs = []*ohmv1.LogChunk{
		{Stream: "stdout", Data: []byte("one\ntw"), Version: 2, Attempt: 3},
		{Stream: "stderr", Data: []byte("oh\n"), Offset: 5, Dropped: 5, Version: 2, Attempt: 3},
	}
	f.broken = 1
	f.more = []*ohmv1.LogChunk{
		{Stream: "stdout", Data: []byte("hundred\n"), Offset: 1006, Dropped: 1000, Version: 2, Attempt: 3},
		{Stream: "stdout", Data: []byte("next\n"), Version: 2, Attempt: 4},
	}
	r := ohm(t, f.address, call{args: []string{"logs", "hello", "-f", "--tail", "7", "--since", "5m"}})
	if r.code != exitDone || r.stdout != "one\ntwoh\n\nhundred\nnext\n" {
		t.Errorf("got %s", r.text(f.address))
	}
	for _, say := range []string{"5 bytes dropped", "1000 bytes dropped", "broke off", "attempt 4"} {
		if !strings.Contains(r.stderr, say) {
			t.Errorf("%q is not in %s", say, r.stderr)
		}
	}
	first, again := f.requests[len(f.requests)-2].(*ohmv1.LogsRequest), f.requests[len(f.requests)-1].(*ohmv1.LogsRequest)
	if first.GetTail() != 7 || first.GetSince() == nil || first.From != nil {
		t.Errorf("asked first for %v", first)
	}
	want := &ohmv1.LogPosition{Version: 2, Attempt: 3, Stdout: 6, Stderr: 8}
	if diff := cmp.Diff(want, again.From, protocmp.Transform()); diff != "" {
		t.Errorf("asked again: %s", diff)
	}
}

func TestStop(t *testing.T) {
	f := startFake(t, fullCell())
	for _, c := range []struct {
		args []string
		want *ohmv1.StopJobsRequest
	}{
		{[]string{"hello", "train"}, &ohmv1.StopJobsRequest{Namespace: "default", Jobs: []string{"hello", "train"}}},
		{[]string{"hello", "-n", "x"}, &ohmv1.StopJobsRequest{Namespace: "x", Jobs: []string{"hello"}}},
		{[]string{"--all"}, &ohmv1.StopJobsRequest{All: true}},
		{[]string{"--all", "-n", "x"}, &ohmv1.StopJobsRequest{All: true, Namespace: "x"}},
	} {
		if r := ohm(t, f.address, call{args: append([]string{"stop"}, c.args...)}); r.code != exitDone || !strings.Contains(r.stdout, "Stopping") {
			t.Errorf("%v: %s", c.args, r.text(f.address))
		}
		if diff := cmp.Diff(c.want, f.stops[len(f.stops)-1], protocmp.Transform()); diff != "" {
			t.Errorf("%v: %s", c.args, diff)
		}
	}
}

func TestStopWaits(t *testing.T) {
	f := fullCell()
	f.watch = map[string][][]*ohmv1.JobStatus{
		"hello": {{{Namespace: "default", Job: "hello", State: "Stopping"}, {Namespace: "default", Job: "hello", State: "Stopped"}}},
		"train": {{{Namespace: "default", Job: "train", State: "Stopping"}}},
	}
	startFake(t, f)
	if r := ohm(t, f.address, call{args: []string{"stop", "hello", "--wait"}}); r.code != exitDone || !strings.Contains(r.stdout, "Stopped") {
		t.Errorf("got %s", r.text(f.address))
	}
	r := ohm(t, f.address, call{args: []string{"stop", "hello", "train", "--wait", "--timeout", "300ms"}})
	if r.code != exitTimedOut || !strings.Contains(r.stdout, "Stopping") || r.stderr != "ohm: not everything has ended after --timeout 300ms; `ohm task list` shows what still runs\n" {
		t.Errorf("got %s", r.text(f.address))
	}
}

func TestDrain(t *testing.T) {
	f := startFake(t, fullCell())
	r := ohm(t, f.address, call{args: []string{"node", "drain", "n7", "--wait", "--timeout", "20s", "-o", "json"}})
	if r.code != exitDone || !strings.Contains(r.stdout, `"tasks":0`) {
		t.Errorf("got %s", r.text(f.address))
	}
	if r := ohm(t, f.address, call{args: []string{"node", "resume", "n7"}}); r.code != exitDone || !strings.Contains(r.stdout, "Ready") {
		t.Errorf("got %s", r.text(f.address))
	}
	want := []*ohmv1.SetIntentRequest{{Node: "n7", Drain: proto.Bool(true)}, {Node: "n7", Drain: proto.Bool(false), Ineligible: proto.Bool(false)}}
	if diff := cmp.Diff(want, f.intents, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	f.nodes[0].Tasks = 1000
	r = ohm(t, f.address, call{args: []string{"node", "drain", "dev", "--wait", "--timeout", "100ms"}})
	if want := "ohm: 1000 tasks on node dev after --timeout 100ms; the drain goes on; `ohm task list --node dev` shows them\n"; r.code != exitTimedOut || r.stderr != want {
		t.Errorf("got %s", r.text(f.address))
	}
}

// What flags of the listing verbs ask the server for.
func TestRequests(t *testing.T) {
	f := startFake(t, fullCell())
	for _, c := range []struct {
		args []string
		env  []string
		want proto.Message
	}{
		{[]string{"status"}, nil, &ohmv1.ListJobsRequest{}},
		{[]string{"status", "-n", "web"}, nil, &ohmv1.ListJobsRequest{Namespace: "web"}},
		{[]string{"status"}, []string{"OHM_NAMESPACE=web"}, &ohmv1.ListJobsRequest{Namespace: "web"}},
		{[]string{"job", "list"}, nil, &ohmv1.ListJobsRequest{}},
		{[]string{"job", "get", "web", "-n", "web"}, nil, &ohmv1.GetJobRequest{Namespace: "web", Job: "web"}},
		{[]string{"explain", "train"}, nil, &ohmv1.GetJobRequest{Namespace: "default", Job: "train"}},
		{[]string{"explain", "train", "--node", "n7"}, nil, &ohmv1.ExplainNodeRequest{Namespace: "default", Job: "train", Node: "n7"}},
		{[]string{"explain", "--txn=T2"}, nil, &ohmv1.GetTxnRequest{Transaction: "T2"}},
		{[]string{"task", "list", "--node", "dev", "--attempts"}, nil, &ohmv1.ListTasksRequest{Node: "dev", Attempts: true}},
		{[]string{"task", "list", "hello"}, nil, &ohmv1.ListTasksRequest{Namespace: "default", Job: "hello"}},
		// Inside of a task these are set, and are no settings.
		{[]string{"task", "list"}, []string{"OHM_NODE=n9", "OHM_JOB=x", "OHM_ATTEMPT=4"}, &ohmv1.ListTasksRequest{}},
		{[]string{"conflict", "list", "--scheduler", "s", "--node", "n", "--job", "j", "--limit", "5"}, nil,
			&ohmv1.ListConflictsRequest{Scheduler: "s", Node: "n", Namespace: "default", Job: "j", Limit: 5}},
		{[]string{"conflict", "list"}, nil, &ohmv1.ListConflictsRequest{}},
	} {
		if r := ohm(t, f.address, call{args: c.args, env: c.env}); r.code != exitDone {
			t.Errorf("%v: %s", c.args, r.text(f.address))
		}
		if diff := cmp.Diff(c.want, f.requests[len(f.requests)-1], protocmp.Transform()); diff != "" {
			t.Errorf("%v: %s", c.args, diff)
		}
	}
}

// Flags win over the environment, the environment over the file.
func TestSettings(t *testing.T) {
	f := startFake(t, fullCell())
	token := write(t, "token", "secret\n")
	conf := write(t, "config.yaml", "address: "+f.address+"\noutput: name\ntoken-file: "+token+"\n")
	// OHM_ADDRESS of the harness comes first, so an empty one takes it away.
	r := ohm(t, "unused", call{args: []string{"status", "--config", conf}, env: []string{"OHM_ADDRESS="}})
	if r.code != exitDone || r.stdout != "hello\ntrain\nweb\n" || f.token != "Bearer secret" {
		t.Errorf("token %q: %s", f.token, r.text(f.address))
	}
	r = ohm(t, "unused", call{args: []string{"status", "-n", "web"}, env: []string{"OHM_ADDRESS=", "OHM_CONFIG=" + conf, "OHM_OUTPUT=json"}})
	if r.code != exitDone || !strings.HasPrefix(r.stdout, "[{") {
		t.Errorf("got %s", r.text(f.address))
	}
	r = ohm(t, nobody(t), call{args: []string{"--address", f.address, "status", "-o", "name"}, env: []string{"OHM_CONFIG=" + conf}})
	if r.code != exitDone || r.stdout != "hello\ntrain\nweb\n" {
		t.Errorf("got %s", r.text(f.address))
	}
	// A general format gives way where a verb does not have it; an unknown one does not.
	if r = ohm(t, f.address, call{args: []string{"logs", "hello"}, env: []string{"OHM_OUTPUT=wide"}}); r.code != exitDone {
		t.Errorf("got %s", r.text(f.address))
	}
	if r = ohm(t, f.address, call{args: []string{"status"}, env: []string{"OHM_OUTPUT=xml"}}); r.code != exitUsage {
		t.Errorf("got %s", r.text(f.address))
	}
	bad := write(t, "config.yaml", "adress: x\n")
	if r = ohm(t, f.address, call{args: []string{"status", "--config", bad}}); r.code != exitUsage || !strings.Contains(r.stderr, bad+`: there is no setting "adress"`) {
		t.Errorf("got %s", r.text(f.address))
	}
}

// A token never leaves this machine in clear text.
func TestTokenNeedsTLS(t *testing.T) {
	token := write(t, "token", "secret\n")
	r := ohm(t, "192.0.2.1:7400", call{args: []string{"status", "--token-file", token}})
	if r.code != exitUsage || r.stderr != "ohm: the token would go to 192.0.2.1:7400 in clear text; give --tls-ca or --tls\n" {
		t.Errorf("got %s", r.text(""))
	}
	for _, text := range []string{"", "two words", "line\nline"} {
		if r := ohm(t, nobody(t), call{args: []string{"status", "--token-file", write(t, "token", text)}}); r.code != exitUsage || !strings.Contains(r.stderr, "does not hold one token") {
			t.Errorf("%q: %s", text, r.text(""))
		}
	}
}

func TestTLS(t *testing.T) {
	// httptest has a certificate for 127.0.0.1 ready.
	web := httptest.NewTLSServer(nil)
	cert := web.TLS.Certificates[0]
	web.Close()
	f := startFake(t, fullCell(), grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}})))
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := ohm(t, f.address, call{args: []string{"status", "--tls-ca", ca, "--token-file", write(t, "token", "s"), "-o", "name"}}); r.code != exitDone || f.token != "Bearer s" {
		t.Errorf("got %s", r.text(f.address))
	}
	// Neither without TLS nor with another authority.
	for _, args := range [][]string{{"status"}, {"status", "--tls"}} {
		start := time.Now()
		if r := ohm(t, f.address, call{args: args}); r.code != exitUnreachable || time.Since(start) > 10*time.Second {
			t.Errorf("%v: %s", args, r.text(f.address))
		}
	}
	if r := ohm(t, f.address, call{args: []string{"status", "--tls-ca", write(t, "ca.pem", "nothing")}}); r.code != exitUsage || !strings.Contains(r.stderr, "holds no PEM certificate") {
		t.Errorf("got %s", r.text(f.address))
	}
}

// A web server is no cell, whatever it answers.
func TestWebServer(t *testing.T) {
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	address := web.Listener.Addr().String()
	if r := ohm(t, address, call{args: []string{"status", "--tls-ca", ca}}); r.code != exitUnreachable || r.stderr != "ohm: what answers at "+address+" is no cell; check --address\n" {
		t.Errorf("got %s", r.text(address))
	}
}

// Every command says what it does; those that do something give an example.
func TestHelp(t *testing.T) {
	a := newApp(strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, nil)
	for _, c := range newRoot(a, a.verbs()).Commands() {
		for _, c := range append(c.Commands(), c) {
			if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Long == "" || c.Example == "" && !c.IsAdditionalHelpTopicCommand() && !c.Hidden {
				t.Errorf("%s: short %q, long %q, example %q", c.CommandPath(), c.Short, c.Long, c.Example)
			}
			args := append(strings.Fields(c.CommandPath())[1:], "--help")
			if r := ohm(t, "unused", call{args: args}); r.code != exitDone || !strings.HasPrefix(r.stdout, c.Long[:10]) || r.stderr != "" {
				t.Errorf("%v: %s", args, r.text("unused"))
			}
		}
	}
	r := ohm(t, "unused", call{args: []string{"help", "exit-codes"}})
	if !strings.Contains(r.stdout, "  6  --timeout passed") {
		t.Errorf("got %s", r.text(""))
	}
}

// docs/cli holds what the commands say now: go run ./cmd/ohm docs docs/cli.
func TestDocs(t *testing.T) {
	committed := filepath.Join("..", "..", "docs", "cli")
	fresh := t.TempDir()
	if *update {
		fresh = committed
	}
	if r := ohm(t, "unused", call{args: []string{"docs", fresh}}); r.code != exitDone {
		t.Fatal(r.text(""))
	}
	if diff := cmp.Diff(pages(t, committed), pages(t, fresh)); diff != "" {
		t.Errorf("run `go run ./cmd/ohm docs docs/cli` (-committed +now):\n%s", diff)
	}
}

func pages(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages in %s: %v", dir, err)
	}
	all := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(data)
	}
	return all
}
