package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files and docs/cli instead of comparing with them")

// call is one run of ohm inside of the test.
type call struct {
	args     []string
	stdin    string
	env      []string
	now      func() time.Time
	ctx      context.Context
	terminal bool
}

type result struct {
	code           exitCode
	stdout, stderr string
}

// ohm runs a call against the cell at address, at noon and with no configuration but
// the call's.
func ohm(t *testing.T, address string, c call) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := append([]string{"HOME=" + t.TempDir(), "OHM_ADDRESS=" + address}, c.env...)
	a := newApp(strings.NewReader(c.stdin), &stdout, &stderr, env)
	a.now, a.colour, a.terminal = noon, c.terminal, c.terminal
	if c.now != nil {
		a.now = c.now
	}
	ctx := c.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	return result{a.run(ctx, c.args), stdout.String(), stderr.String()}
}

func (r result) text(address string) string {
	s := fmt.Sprintf("exit %d\n--- stdout\n%s--- stderr\n%s", r.code, r.stdout, r.stderr)
	if address != "" {
		s = strings.ReplaceAll(s, address, "CELL")
	}
	return s
}

func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s", file, diff)
	}
}

// Every verb that reads, in every format that it has, is as in its golden file, and
// what does not go to a terminal has no control characters.
func TestGolden(t *testing.T) {
	verbs := map[string][]string{
		"status":         {"status"},
		"status_one":     {"status", "hello"},
		"status_groups":  {"status", "train"},
		"status_several": {"status", "hello", "train"},
		"explain":        {"explain", "train"},
		"explain_node":   {"explain", "--node", "n7", "train"},
		"explain_txn":    {"explain", "--txn", "T2"},
		"job_list":       {"job", "list", "-n", "web"},
		"job_get":        {"job", "get", "hello"},
		"job_history":    {"job", "history", "hello"},
		"job_run":        {"job", "history", "hello", "--run", "2"},
		"run_again":      {"run", "--again", "hello", "--only-failed"},
		"job_get_gang":   {"job", "get", "train"},
		"node_list":      {"node", "list"},
		"hold_list":      {"hold", "list"},
		"node_get":       {"node", "get", "n7"},
		"node_get_plain": {"node", "get", "dev"},
		"task_list":      {"task", "list"},
		"task_list_job":  {"task", "list", "hello"},
		"scheduler_list": {"scheduler", "list"},
		"quota_list":     {"quota", "list"},
		"quota_get":      {"quota", "get", "prod"},
		"quota_set":      {"quota", "set", "batch", "--scheduler", "--cpu", "2.5", "--memory", "64Gi", "--gpus", "0"},
		"conflict_list":  {"conflict", "list"},
		"txn_get":        {"txn", "get", "T2"},
		"audit":          {"audit"},
		"stop":           {"stop", "hello"},
		"node_drain":     {"node", "drain", "dev"},
		"drain_plan":     {"node", "drain", "n7", "--deadline", "1h", "--dry-run"},
		"defrag_plan":    {"node", "defrag", "--plan"},
		"rebalance":      {"job", "rebalance", "web", "--apply", "--at-once", "2"},
		"rebalance_plan": {"job", "rebalance", "web", "--plan"},
		"endpoints":      {"job", "endpoints", "web/main", "--port", "http"},
		"scale":          {"job", "scale", "web", "30"},
		"node_lost":      {"node", "lost", "n7"},
		"node_resume":    {"node", "resume", "n7"},
		"node_label":     {"node", "label", "n7", "disk=ssd"},
		"store_doctor":   {"store", "doctor"},
		"store_cure":     {"store", "doctor", "--cure"},
	}
	for name, args := range verbs {
		for _, format := range listFormats() {
			t.Run(name+"_"+format, func(t *testing.T) {
				f := startFake(t, fullCell())
				r := ohm(t, f.address, call{args: append(args, "-o", format)})
				if r.code == exitUsage && format == "name" {
					if name != "audit" && !strings.HasPrefix(name, "explain") && !strings.HasPrefix(name, "store_") {
						t.Fatalf("no -o name: %s", r.stderr)
					}
					return
				}
				compare(t, filepath.Join("testdata", "golden", name+"."+format), r.text(f.address))
				if i := strings.IndexFunc(r.stdout+r.stderr, func(c rune) bool { return c < ' ' && c != '\n' || c == 0x7f }); i >= 0 {
					t.Errorf("a control character at byte %d of the output", i)
				}
				if format == "json" && !json.Valid([]byte(r.stdout)) {
					t.Errorf("not JSON: %s", r.stdout)
				}
			})
		}
	}
}

// An empty cell is said to be empty, and is an empty array in JSON.
func TestEmptyCell(t *testing.T) {
	f := startFake(t, &fake{})
	for _, args := range [][]string{{"status"}, {"job", "list"}, {"node", "list"}, {"task", "list"}, {"conflict", "list"}, {"quota", "list"}, {"stop", "--all"}} {
		if r := ohm(t, f.address, call{args: args}); r.code != exitDone || r.stdout != "" || !strings.HasPrefix(r.stderr, "no ") {
			t.Errorf("%v: %s", args, r.text(f.address))
		}
		if r := ohm(t, f.address, call{args: append(args, "-o", "json")}); r.code != exitDone || r.stdout != "[]\n" {
			t.Errorf("%v: %s", args, r.text(f.address))
		}
	}
}

// A namespace without jobs does not make the cell empty.
func TestEmptyNamespace(t *testing.T) {
	f := startFake(t, &fake{})
	if r := ohm(t, f.address, call{args: []string{"status", "-n", "other"}}); r.code != exitDone || r.stderr != "no jobs in namespace \"other\"\n" {
		t.Error(r.text(f.address))
	}
}

// Many jobs have a line each, however much there is to say of one; one job is told whole.
func TestLongNotes(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("größe ", 40))
	f := fullCell()
	for _, j := range f.jobs {
		j.Status.Message = long
	}
	startFake(t, f)
	cut := long[:len("größe ")*15-len(" ")] + "…"
	for _, c := range []struct {
		args  []string
		whole bool
	}{{[]string{"status"}, false}, {[]string{"status", "hello", "train"}, false}, {[]string{"status", "-o", "wide"}, true}, {[]string{"status", "hello"}, true}} {
		r := ohm(t, f.address, call{args: c.args})
		if strings.Contains(r.stdout, long) != c.whole || strings.Contains(r.stdout, cut) == c.whole {
			t.Errorf("%v: %s", c.args, r.text(f.address))
		}
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	f := startFake(t, fullCell())
	r := ohm(t, f.address, call{args: []string{"status"}, terminal: true})
	for _, want := range []string{"\x1b[32mSucceeded\x1b[0m", "\x1b[33mPending\x1b[0m"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in %q", want, r.stdout)
		}
	}
	if r := ohm(t, f.address, call{args: []string{"status", "-o", "json"}, terminal: true}); strings.Contains(r.stdout, "\x1b") {
		t.Errorf("colour in JSON: %q", r.stdout)
	}
}

// The audit of a cell that broke a promise shows it and exits with 1.
func TestAuditViolation(t *testing.T) {
	f := fullCell()
	f.audit.Violations = []*ohmv1.Violation{{Revision: 77, Law: "1", Key: "tasks/default/a/main/0@1/placement", Detail: "node dev holds 5 of 4 cpu"}}
	startFake(t, f)
	for _, format := range []string{"table", "json"} {
		r := ohm(t, f.address, call{args: []string{"audit", "-o", format}})
		if r.code != exitFailed {
			t.Errorf("exit code %d", r.code)
		}
		compare(t, filepath.Join("testdata", "golden", "audit_violation."+format), r.text(f.address))
	}
}

func TestVersion(t *testing.T) {
	f := startFake(t, fullCell())
	r := ohm(t, f.address, call{args: []string{"version"}})
	if want := "ohm   " + version + "\ncell  9.9.9  dev at " + f.address + ", revision 815\n"; r.code != exitDone || r.stdout != want {
		t.Errorf("got %s, want %s", r.text(f.address), want)
	}
	f.size = cellstate.Size{File: 12 << 20, Quota: 16 << 20}
	r = ohm(t, f.address, call{args: []string{"version"}})
	if want := "store 12Mi of 16Mi, 75%; see `ohm store doctor`\n"; !strings.HasSuffix(r.stdout, want) {
		t.Errorf("got %s, want %s", r.text(f.address), want)
	}
	var got struct {
		Client struct{ Version string }
		Cell   *struct {
			Version  string
			Revision int
		}
	}
	r = ohm(t, f.address, call{args: []string{"version", "-o", "json"}})
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || got.Client.Version != version || got.Cell.Version != "9.9.9" || got.Cell.Revision != 815 {
		t.Errorf("got %s, %v", r.text(f.address), err)
	}
	// Without a cell there is still the client.
	r = ohm(t, nobody(t), call{args: []string{"version", "-o", "json"}})
	got.Cell = nil
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != exitDone || got.Cell != nil || got.Client.Version != version {
		t.Errorf("got %s, %v", r.text(""), err)
	}
}
