package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDoubles(t *testing.T) {
	for notes, want := range map[string]int{
		"":                                      0,
		"begin a.0 1\nbegin a.0 2\nbegin a.1 1": 0,
		"begin a.0 1\nbegin a.0 1\n":            1,
		"begin a.0 1\ndouble a.0 2\n":           1,
		"begin a.0 1\ndouble a.0 1\n":           2,
	} {
		if got := doubles(notes); len(got) != want {
			t.Errorf("%q: %q, want %d", notes, got, want)
		}
	}
}

func TestNeedless(t *testing.T) {
	named := func(name string) kind {
		i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
		if i < 0 {
			t.Fatalf("there is no kind %s", name)
		}
		return kinds()[i]
	}
	again, server := named("again"), named("server")
	view := func(task string, attempt int32, cause string) *ohmv1.TaskView {
		return &ohmv1.TaskView{Task: task, Attempt: attempt, Cause: cause}
	}
	for name, c := range map[string]struct {
		job      *job
		attempts []*ohmv1.TaskView
		want     int
	}{
		"as its script says": {&job{kind: again, name: "a", count: 1},
			[]*ohmv1.TaskView{view("a/main/0", 3, "exited 0"), view("a/main/0", 1, "exited 3"), view("a/main/0", 2, "exited 3")}, 0},
		"an end too many": {&job{kind: again, name: "a", count: 1},
			[]*ohmv1.TaskView{view("a/main/0", 1, "exited 3"), view("a/main/0", 2, "UnknownExit"), view("a/main/0", 3, "exited 3"), view("a/main/0", 4, "exited 0")}, 3},
		"an end too few":             {&job{kind: again, name: "a", count: 1}, []*ohmv1.TaskView{view("a/main/0", 1, "exited 3"), view("a/main/0", 2, "exited 3")}, 1},
		"a number is missing":        {&job{kind: server, name: "s", count: 1}, []*ohmv1.TaskView{view("s/main/0", 2, "Stopped")}, 1},
		"a server that was stopped":  {&job{kind: server, name: "s", count: 1}, []*ohmv1.TaskView{view("s/main/0", 1, "Stopped")}, 0},
		"a server that fell":         {&job{kind: server, name: "s", count: 1}, []*ohmv1.TaskView{view("s/main/0", 1, "signal 9"), view("s/main/0", 2, "Stopped")}, 2},
		"nothing of it":              {&job{kind: server, name: "s", count: 2}, nil, 2},
		"stopped before it had node": {&job{kind: server, name: "s", count: 1, stopped: true}, []*ohmv1.TaskView{{Task: "s/main/0"}}, 0},
	} {
		if got := needless([]*job{c.job}, c.attempts); len(got) != c.want {
			t.Errorf("%s: %q, want %d", name, got, c.want)
		}
	}
}

// TestReport: a run proves nothing where nothing was killed, or a node ran no task.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		report Report
		wrong  string
	}{
		{Report{AgentKills: 1, DaemonKills: 1, Attempts: 2, On: map[string]int{"a": 1, "b": 1}}, ""},
		{Report{AgentKills: 1, DaemonKills: 1, Attempts: 2, On: map[string]int{"a": 2, "b": 0}}, "nothing ran on b"},
		{Report{AgentKills: 1, Attempts: 2, On: map[string]int{"a": 2}}, "nothing was killed"},
		{Report{AgentKills: 1, DaemonKills: 1, Attempts: 2, On: map[string]int{"a": 2}, Leaks: []string{"x"}}, "leaks: 1"},
	} {
		if err := c.report.Err(); (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%+v: %v, want %q", c.report, err, c.wrong)
		}
	}
}

// TestLocked: a lock that a process has is seen, also after the one that took it has ended.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if is, err := locked(path); is || err != nil {
		t.Errorf("one that is not there: %v, %v", is, err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if is, err := locked(path); !is || err != nil {
		t.Errorf("one that is held: %v, %v", is, err)
	}
	f.Close()
	if is, err := locked(path); is || err != nil {
		t.Errorf("one that is free: %v, %v", is, err)
	}
}

// TestPlan: a run has the tasks it says, of every kind, and the same ones for the same seed.
func TestPlan(t *testing.T) {
	count, seen, first := 0, map[string]bool{}, plan(newRand(3), usualTasks)
	for i, j := range plan(newRand(3), usualTasks) {
		count += j.count
		seen[j.kind.name] = true
		if j.name != first[i].name || j.at != first[i].at || j.stopAt != first[i].stopAt {
			t.Errorf("job %d is %+v, was %+v", i, j, first[i])
		}
	}
	if count != usualTasks || len(seen) != len(kinds()) {
		t.Errorf("%d tasks, kinds %v", count, seen)
	}
}

// TestSeeds: what former runs have found is held by a test that is there.
func TestSeeds(t *testing.T) {
	raw, err := os.ReadFile("seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		rows++
		part := strings.Split(strings.TrimSpace(line), " | ")
		if len(part) != 4 || !strings.Contains(part[1], "SEED="+part[0]) {
			t.Errorf("not a row: %s", line)
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "..", part[3])); err != nil {
			t.Error(err)
		}
	}
	if rows == 0 {
		t.Error("no rows")
	}
}
