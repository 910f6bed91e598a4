package bench

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // in the refusal; empty: none
	}{
		"as it is":               {func(*Config) {}, ""},
		"no nodes":               {func(c *Config) { c.Nodes = 0 }, "--nodes"},
		"no time":                {func(c *Config) { c.Duration = 0 }, "--duration"},
		"a rate below zero":      {func(c *Config) { c.Rate = -1 }, "--rate"},
		"too full":               {func(c *Config) { c.Steady = 1 }, "--steady"},
		"a job too big":          {func(c *Config) { c.TasksPerJob = 5000 }, "does not fit"},
		"too many live":          {func(c *Config) { c.Live = 64_000 }, "--live"},
		"too many in a request":  {func(c *Config) { c.Submit = 101 }, "--submit"},
		"too many sessions":      {func(c *Config) { c.Sessions = 1001 }, "--sessions"},
		"sessions of lives":      {func(c *Config) { c.Life, c.Sessions = true, 10 }, "--life"},
		"lives without a bound":  {func(c *Config) { c.Life, c.Steady = true, 0 }, "--steady"},
		"heartbeats of nobody":   {func(c *Config) { c.Heartbeats = true }, "--sessions"},
		"a trickle that is none": {func(c *Config) { c.Trickle = -1 }, "--trickle"},
		"a stranger's profile":   {func(c *Config) { c.Profiles, c.Etcd.Endpoints = "here", []string{"there:2379"} }, "--profiles"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := Short()
			c.change(&conf)
			err := conf.Check()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestDue: a rate is of tasks, and jobs come whole.
func TestDue(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		tasks int
		after time.Duration
		want  int
	}{{1000, 100, 0, 0}, {1000, 100, 99 * time.Millisecond, 0}, {1000, 100, 3 * time.Second, 30}, {0.5, 1, 5 * time.Second, 2}} {
		if got := (Config{Rate: c.rate, TasksPerJob: c.tasks}).due(c.after); got != c.want {
			t.Errorf("at %g tasks a second, jobs of %d, after %v: %d, want %d", c.rate, c.tasks, c.after, got, c.want)
		}
	}
	if (Config{TasksPerJob: 1}).due(0) < 1<<40 {
		t.Error("without a rate jobs are held back")
	}
}

// TestRows: what make bench measures makes sense, and every row has a name of its own.
func TestRows(t *testing.T) {
	names := map[string]bool{}
	for _, r := range rows(Short()) {
		if err := r.config.Check(); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		names[r.Name] = true
	}
	if len(names) != len(rows(Short())) {
		t.Errorf("names %v", names)
	}
}

func TestLatencies(t *testing.T) {
	var l latencies
	for i := range 100 {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	before := l
	near := func(got, want float64) bool { return got > want*0.97 && got < want*1.03 }
	if q := l.quantiles(); !near(q.P50, 51) || !near(q.P99, 100) {
		t.Errorf("of 1 to 100 ms: %+v", q)
	}
	l.add(0)
	l.add(time.Hour)
	window := l.minus(before)
	if n, q := window.count(), window.quantiles(); n != 2 || q.P99 < 1e6 || q.P99 > 3e6 {
		t.Errorf("%d after the first hundred, %+v", n, q)
	}
	if q := (latencies{}).quantiles(); q != (Quantiles{}) {
		t.Errorf("of nothing: %+v", q)
	}
}

func TestClock(t *testing.T) {
	var c clock
	c.add(time.Second)
	c.begin()
	c.add(10 * time.Millisecond)
	if n, q := c.end(); n != 1 || q.P99 > 11 {
		t.Errorf("%d in the window, %+v", n, q)
	}
}

func TestParseUsage(t *testing.T) {
	stat := "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0 100 123456 3 rest"
	got := parseUsage(stat, "Name: x\nVmHWM:\t  64 kB\nVmRSS: 12 kB\n", "rchar: 1\nwrite_bytes: 4096\ncancelled_write_bytes: 2\n", 1000)
	if want := (usage{cpu: 3, rss: 3000, peak: 64 << 10, written: 4096}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := parseUsage("", "", "", 1000); got != (usage{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestSteps(t *testing.T) {
	for window, want := range map[time.Duration]int{time.Second: 1, 4 * time.Minute: 1, 20 * time.Minute: 5, time.Hour: 15, 9 * time.Hour: 15} {
		if got := steps(window); got != want {
			t.Errorf("%v: %d steps a quarter, want %d", window, got, want)
		}
	}
}

// seen is a batch in which a job's tasks are placed on nodes, one after the other.
func seen(at cellstate.Revision, job string, nodes ...string) cellstate.Batch {
	b := cellstate.Batch{Revision: at}
	for i, node := range nodes {
		slot := cellstate.Slot{Namespace: "default", Job: job, Group: "main", Index: i, Version: 1}
		b.Changes = append(b.Changes, cellstate.Change{Key: slot.PlacementKey(), Value: placement(slot, node), Revision: at})
	}
	return b
}

func TestWorldCounts(t *testing.T) {
	c := Short()
	c.TasksPerJob, c.Schedulers = 3, 1
	w := newWorld(c.TasksPerJob)
	jobs := w.wanted(c, c.spec(), 2)
	if len(jobs) != 2 || w.waiting != 6 {
		t.Fatalf("%d jobs, %d tasks wait", len(jobs), w.waiting)
	}
	first := cellstate.JobNameOf(jobs[0])
	before := w.count()
	w.see(seen(5, first.Name, "n1", "n1", "n2"))
	w.see(seen(6, "somebody-elses", "n1"))
	slot := cellstate.Slot{Namespace: "default", Job: first.Name, Group: "main", Version: 1}
	w.see(cellstate.Batch{Revision: 7, Changes: []cellstate.Change{
		{Key: slot.PlacementKey(), Deleted: true, Revision: 7},
		{Key: slot.EndedKey(1), Value: &ohmv1.Ended{}, Revision: 7},
		{Key: cellstate.ConflictKey("bench", "1"), Value: &ohmv1.Conflict{Reason: "Resources"}, Revision: 7},
	}})
	d := w.count().minus(before)
	if d.placed != 4 || d.released != 1 || d.ended != 1 || d.nodeWrites != 3 || d.conflicts["Resources"] != 1 {
		t.Errorf("counted %d placed, %d released, %d ended, %d node writes, conflicts %v", d.placed, d.released, d.ended, d.nodeWrites, d.conflicts)
	}
	if d.wait.count() != 3 || d.commit.count() != 3 { // of the load only
		t.Errorf("%d waits, %d commits", d.wait.count(), d.commit.count())
	}
	if w.live != 3 || w.waiting != 3 || len(w.full) != 1 || w.full[0] != first || w.firstOf("bench-0").IsZero() {
		t.Errorf("%d live, %d wait, full %v", w.live, w.waiting, w.full)
	}
	writes := d.writesPer(2)
	if writes["placement puts"] != 2 || writes["placement deletes"] != 0.5 || writes["ended puts"] != 0.5 || len(writes) != 4 {
		t.Errorf("writes %v", writes)
	}
}

// TestWanted: lives are not more than are to be there.
func TestWanted(t *testing.T) {
	c := Short()
	c.Life, c.Nodes, c.Steady, c.TasksPerJob = true, 10, 0.5, 100
	w := newWorld(c.TasksPerJob)
	if jobs := w.wanted(c, c.spec(), 1000); len(jobs) != 4 { // the fourth begins below 320
		t.Errorf("%d jobs", len(jobs))
	}
	if s := c.spec().GetGroups()[0]; s.GetEnv()["HOLLOW_SECONDS"] != lifetime || s.GetConstraints()[0].GetKey() != "hollow" {
		t.Errorf("the job is %v", s)
	}
}

// TestSessionsLag: a message that comes before the watch's event has no lag.
func TestSessionsLag(t *testing.T) {
	w := newWorld(1)
	s := newSessions(1, w)
	slot := func(job string) cellstate.Slot {
		return cellstate.Slot{Namespace: "default", Job: job, Group: "main", Version: 1}
	}
	late, early := placement(slot("late"), "n1"), placement(slot("early"), "n1")
	tell := func(p *ohmv1.Placement, at time.Time) { s.told([]*ohmv1.Assignment{{Id: cellstate.TaskID(p)}}, at) }
	now := time.Now()
	s.begin()
	s.see(late, now)
	tell(early, now)
	tell(late, now.Add(80*time.Millisecond))
	s.see(early, now.Add(time.Second))
	if n, q := s.lag.end(); n != 2 || q.P50 < 78 || q.P99 > 83 {
		t.Errorf("%d, %+v", n, q)
	}
	if len(s.early)+len(s.durable) != 0 {
		t.Errorf("left: %v %v", s.early, s.durable)
	}
}

// TestTrickle: only its own jobs count, once.
func TestTrickle(t *testing.T) {
	w := newWorld(1)
	tr := newTrickle(w)
	tr.sent["trickle-1"] = time.Now()
	w.see(seen(1, "trickle-1", "n1"))
	w.see(seen(2, "job-1", "n1"))
	w.see(seen(3, "trickle-1", "n2"))
	if n, _ := tr.durable.end(); n != 1 || len(tr.placed) != 1 || w.waiting != 0 {
		t.Errorf("%d, placed %v, %d wait", n, tr.placed, w.waiting)
	}
}

func TestLine(t *testing.T) {
	r := Row{Name: "a row", Report: &Report{PlacementsPerSecond: 1234, RawPerSecond: 2468, Ratio: 0.5}, shows: func(*Report) string { return "its own" }}
	for _, want := range []string{"a row", "1234", "2468", "0.50", "its own"} {
		if !strings.Contains(r.Line(), want) {
			t.Errorf("%q is not in %q", want, r.Line())
		}
	}
	r.Report.RawPerSecond = 0
	if strings.Contains(r.Line(), "0.50") {
		t.Errorf("a ratio to nothing: %q", r.Line())
	}
}
