package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", 1949 * time.Millisecond: "1.9s", 9949 * time.Millisecond: "9.9s", 9950 * time.Millisecond: "9s", 59 * time.Second: "59s",
		time.Minute: "1m", 192 * time.Second: "3m12s", time.Hour: "1h", 125 * time.Minute: "2h5m", 24 * time.Hour: "1d", 76 * time.Hour: "3d4h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	a := &app{now: noon}
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s ago", 3900 * time.Millisecond: "3s ago", 119 * time.Second: "119s ago", 2 * time.Minute: "2m ago",
		119 * time.Minute: "119m ago", 47 * time.Hour: "47h ago", 50 * time.Hour: "2d ago",
	} {
		if got := a.ago(ageOf(d)); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
	if got := a.ago(nil); got != "" {
		t.Errorf("no time is %q", got)
	}
}

func TestTally(t *testing.T) {
	for _, c := range []struct {
		kind string
		in   *ohmv1.GroupCounts
		want string
	}{
		{"batch", &ohmv1.GroupCounts{Count: 4, Succeeded: 4}, "4/4 succeeded"},
		{"service", &ohmv1.GroupCounts{Count: 3, Running: 2, Failed: 1}, "2/3 running, 1 failed"},
		{"system", &ohmv1.GroupCounts{}, "0/0 running"},
		{"ml", &ohmv1.GroupCounts{Count: 28, Succeeded: 1, Failed: 2, Running: 3, Starting: 4, Stopping: 5, Stopped: 6, Waiting: 7},
			"1/28 succeeded, 2 failed, 3 running, 4 starting, 5 stopping, 6 stopped, 7 waiting"},
	} {
		if got := tally(c.kind, c.in); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// When the waiting for a job is over, and with which code.
func TestVerdict(t *testing.T) {
	type counts = ohmv1.GroupCounts
	for _, c := range []struct {
		kind, state string
		groups      []*counts
		code        exitCode
		over        bool
	}{
		{"batch", "Pending", []*counts{{Count: 1, Waiting: 1}}, 0, false},
		{"batch", "Running", []*counts{{Count: 1, Running: 1}}, 0, false},
		{"ml", "Running", []*counts{{Count: 1, Running: 1}}, 0, false},
		{"batch", "Succeeded", []*counts{{Count: 1, Succeeded: 1}}, exitDone, true},
		{"batch", "Failed", []*counts{{Count: 1, Failed: 1}}, exitFailed, true},
		{"batch", "Stopped", []*counts{{Count: 1, Stopped: 1}}, exitCancelled, true},
		{"batch", "Stopping", []*counts{{Count: 1, Stopping: 1}}, 0, false},
		{"service", "Pending", []*counts{{Count: 1, Waiting: 1}}, 0, false},
		{"service", "Running", []*counts{{Count: 2, Running: 1, Starting: 1}}, 0, false},
		{"service", "Running", []*counts{{Count: 1, Running: 1}, {Count: 1, Waiting: 1}}, 0, false},
		{"service", "Running", []*counts{{Count: 2, Running: 2}, {Count: 1, Running: 1}}, exitDone, true},
		{"service", "Running", []*counts{{Count: 2, Running: 2, Stopping: 1}}, exitDone, true}, // one of an older version is on its way out
		{"service", "Running", []*counts{{}}, exitDone, true},
		{"service", "Stopping", []*counts{{Count: 2, Running: 2}}, 0, false},
		{"service", "Failed", []*counts{{Count: 2, Failed: 2}}, exitFailed, true},
		{"system", "Running", []*counts{{Count: 3, Running: 3}}, exitDone, true},
		{"system", "Running", []*counts{{Count: 3, Running: 2, Waiting: 1}}, 0, false},
	} {
		code, over := verdict(&ohmv1.JobStatus{Kind: c.kind, State: c.state, Groups: c.groups})
		if over != c.over || over && code != c.code {
			t.Errorf("%s %s %v: got %d, %v", c.kind, c.state, c.groups, code, over)
		}
	}
}

func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"sh", "-c", `echo "it's" $X`, "", "plain/arg=1"})
	if want := `sh -c 'echo "it'\''s" $X' '' plain/arg=1`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Columns are as wide as their widest cell in characters, not bytes; a line has no
// space at its end; what a cell says cannot break the table or steer a terminal.
func TestColumns(t *testing.T) {
	var out bytes.Buffer
	p := &printer{app: &app{stdout: &out}}
	columns(p, []string{"", "Ωmega", "a\nb\x1b[2J"},
		column[string]{title: "A", cell: func(s string) string { return s }},
		column[string]{title: "SKIPPED", cell: strings.ToUpper, skip: true},
		column[string]{title: "B", cell: func(s string) string { return strings.ToUpper(s) }},
	)
	if err := p.flush(); err != nil {
		t.Fatal(err)
	}
	want := "A        B\n-\nΩmega    ΩMEGA\na b [2J  A B [2J\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}
