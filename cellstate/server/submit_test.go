package server_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/server"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestSubmitIsIdempotent(t *testing.T) {
	w := serve(t, nil)
	a := celltest.Job{Name: "a"}
	changed := celltest.Job{Name: "a", Count: 3}
	kind := celltest.Job{Name: "a", Kind: "service"}
	scheduler := celltest.Job{Name: "a", Scheduler: "ml"}
	stop := func() {
		t.Helper()
		if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name      string
		before    func()
		job       celltest.Job
		id        string
		code      codes.Code
		version   int64
		unchanged bool
	}{
		{name: "new", job: a, id: "r1", version: 1},
		{name: "repeated", job: a, id: "r1", version: 1, unchanged: true},
		{name: "id reused for other content", job: changed, id: "r1", code: codes.AlreadyExists},
		{name: "same content, no id", job: a, version: 1, unchanged: true},
		{name: "same content, other id", job: a, id: "r2", version: 1, unchanged: true},
		{name: "repeated after a stop, by the other id", before: stop, job: a, id: "r2", version: 1, unchanged: true},
		{name: "the other id reused for other content", job: changed, id: "r2", code: codes.AlreadyExists},
		{name: "again after a stop", job: a, version: 2},
		{name: "changed while live", job: changed, id: "r3", version: 3},
		{name: "kind changed while live", job: kind, code: codes.FailedPrecondition},
		{name: "scheduler changed while live", job: scheduler, code: codes.FailedPrecondition},
		{name: "repeated after a stop", before: stop, job: changed, id: "r3", version: 3, unchanged: true},
		{name: "changed, again after a stop", job: changed, version: 4},
		{name: "another kind after a stop", before: stop, job: kind, version: 5},
	} {
		if step.before != nil {
			step.before()
		}
		resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(step.job)}, RequestId: step.id})
		if status.Code(err) != step.code {
			t.Fatalf("%s: %v, want code %v", step.name, err, step.code)
		}
		if err != nil {
			continue
		}
		got := resp.GetJobs()[0]
		if got.GetVersion() != step.version || got.GetUnchanged() != step.unchanged {
			t.Fatalf("%s: version %d unchanged %v, want %d %v", step.name, got.GetVersion(), got.GetUnchanged(), step.version, step.unchanged)
		}
		record := w.cell.Snapshot().Job(celltest.Name("a")).Record
		if record.GetVersion() != step.version {
			t.Fatalf("%s: version %d is stored, want %d", step.name, record.GetVersion(), step.version)
		}
		if !step.unchanged && (record.GetStopped() || record.GetDone() != nil) {
			t.Fatalf("%s: a new run has an old run's marks: %v", step.name, record)
		}
	}
}

func TestSubmitAllOrNone(t *testing.T) {
	w := serve(t, nil)
	good, bad := spec(celltest.Job{Name: "good"}), spec(celltest.Job{Name: "bad", Scheduler: "nobody"})
	_, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{good, bad}})
	wantCode(t, err, codes.InvalidArgument)
	if w.cell.Snapshot().Job(celltest.Name("good")) != nil {
		t.Fatal("a part of a refused request was stored")
	}
	var many []*ohmv1.JobSpec
	for _, name := range names(100, "job-%d") {
		many = append(many, spec(celltest.Job{Name: name}))
	}
	resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: many})
	if err != nil || len(resp.GetJobs()) != 100 {
		t.Fatalf("%d jobs, %v", len(resp.GetJobs()), err)
	}
	var at cellstate.Revision
	for j := range w.cell.Snapshot().Jobs() {
		if at != 0 && j.Revision != at {
			t.Fatalf("jobs of one request stand at revisions %d and %d", at, j.Revision)
		}
		at = j.Revision
	}
	_, err = w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: append(many, good)})
	wantCode(t, err, codes.InvalidArgument)
	_, err = w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{good, good}})
	wantCode(t, err, codes.InvalidArgument)
	_, err = w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{})
	wantCode(t, err, codes.InvalidArgument)
}

// Field case 6: one rule for names, for every client.
func TestNamesAreRefused(t *testing.T) {
	w := serve(t, nil)
	for _, name := range []string{"", "/a/b", "why?", "a b", "..", "a%2Fb", "größe", strings.Repeat("a", 300), "-a", "a-", "A", "a/../b"} {
		for _, field := range []string{"name", "namespace", "group"} {
			s := spec(celltest.Job{Name: "ok"})
			switch field {
			case "name":
				s.Name = name
			case "namespace":
				if s.Namespace = name; name == "" {
					continue // the default one
				}
			case "group":
				s.Groups[0].Name = name
			}
			_, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{s}})
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "lower-case letters") {
				t.Errorf("%s %.20q: %v, want a refusal that gives the rule", field, name, err)
			}
		}
		stream, err := w.nodes.Session(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Hello{Hello: &ohmv1.Hello{
			Node: &ohmv1.Node{Name: name}, Session: "1",
		}}})
		if _, err = stream.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("node %.20q: %v, want a refusal", name, err)
		}
	}
	for j := range w.cell.Snapshot().Jobs() {
		t.Errorf("job %s was stored", j.Name)
	}
}

// Field case 111: a misspelt scheduler is refused with the names that there are.
func TestUnknownScheduler(t *testing.T) {
	w := serve(t, nil)
	_, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(celltest.Job{Name: "a", Scheduler: "btach"})}})
	wantCode(t, err, codes.InvalidArgument)
	for _, part := range []string{`"btach"`, "batch, ml, service, system", "did you mean batch?"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	// A registered one that is not running is named as owing an answer.
	w.submit(celltest.Job{Name: "b"})
	got, err := w.insight.Explain(w.ctx, &ohmv1.GetJobRequest{Job: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetState() != "Pending" || got.GetSchedulerState() != "NotSeen" || !strings.Contains(got.GetMessage(), "scheduler batch has not been seen") {
		t.Errorf("explain: %v", got)
	}
}

// Field case 7: a request about web never touches web1.
func TestExactNames(t *testing.T) {
	w := serve(t, nil)
	for _, name := range []string{"web", "web1", "web10"} {
		w.submit(celltest.Job{Name: name, Kind: "service"})
	}
	got, err := w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "web"})
	if err != nil || got.GetStatus().GetJob() != "web" {
		t.Fatalf("%v, %v", got, err)
	}
	_, err = w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"web", "we"}})
	wantCode(t, err, codes.NotFound)
	if !strings.Contains(err.Error(), "default/we ") {
		t.Errorf("%v does not name the unknown job", err)
	}
	live := func() (names []string) {
		for j := range w.cell.Snapshot().Jobs() {
			if j.Live() {
				names = append(names, j.Name.Name)
			}
		}
		return names
	}
	if n := len(live()); n != 3 {
		t.Fatalf("a refused stop left %d jobs of 3 live", n)
	}
	resp, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"web"}})
	if err != nil || len(resp.GetJobs()) != 1 || resp.GetJobs()[0].GetState() != "Stopped" {
		t.Fatalf("%v, %v", resp, err)
	}
	if got := strings.Join(live(), " "); got != "web1 web10" {
		t.Fatalf("live after stop web: %s", got)
	}
	row := w.cell.Snapshot().Job(celltest.Name("web"))
	w.cell.Put(cellstate.Record{Key: cellstate.JobKey(row.Name), Read: row.Revision})
	w.seen()
	for _, err := range []error{
		func() error { _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"web"}}); return err }(),
		func() error { _, err := w.jobs.Get(w.ctx, &ohmv1.GetJobRequest{Job: "web"}); return err }(),
		func() error { _, err := w.insight.Explain(w.ctx, &ohmv1.GetJobRequest{Job: "web"}); return err }(),
	} {
		wantCode(t, err, codes.NotFound)
	}
	if resp, err = w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{All: true}); err != nil || len(resp.GetJobs()) != 2 {
		t.Fatalf("stop all: %v, %v", resp, err)
	}
	if n := len(live()); n != 0 {
		t.Fatalf("stop all left %d jobs live", n)
	}
}

// limitedStore commits at most four claims at once, over at most two nodes.
type limitedStore struct{ *memstore.Store }

func (limitedStore) Limits() cellstate.Limits { return cellstate.Limits{Claims: 4, Nodes: 2} }

// What no choice of nodes can fit is refused at once, with the numbers.
func TestGangBeyondTheStore(t *testing.T) {
	store := memstore.New()
	w := serve(t, store, func(c *server.Config) { c.Store = limitedStore{store} })
	gang := func(name string, count int, cpu int64) error {
		_, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(celltest.Job{Name: name, Kind: "ml", Count: count, CPU: cpu})}})
		return err
	}
	refused := func(err error, numbers ...string) {
		t.Helper()
		wantCode(t, err, codes.InvalidArgument)
		for _, n := range numbers {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("%v lacks %q", err, n)
			}
		}
	}
	fits := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fits(gang("fits", 4, 1000))
	refused(gang("too-large", 5, 1000), "5 tasks", "at most 4")
	fits(gang("waits-for-nodes", 3, 2000)) // there may be larger ones
	for i := range 3 {
		w.cell.Node(celltest.Node{Name: fmt.Sprint("n", i), CPU: 2000})
	}
	w.seen()
	refused(gang("too-wide", 3, 2000), "3 tasks", "at most 2 nodes", "room for 2 ")
	fits(gang("too-wide", 3, 1000))
	fits(gang("waits-for-room", 4, 2000))
	w.cell.Node(celltest.Node{Name: "n2", CPU: 4000})
	w.seen()
	fits(gang("narrow", 3, 2000))
}

// A submission of which the store's reply is lost is found applied, not applied twice.
func TestSubmitWithALostReply(t *testing.T) {
	var lost atomic.Int32
	w := serve(t, memstore.New(memstore.DropReplies(func(writes []cellstate.Write) bool {
		for _, r := range writes[0].Records {
			if _, is := r.Value.(*ohmv1.Job); is {
				return lost.Add(1) == 1
			}
		}
		return false
	})))
	got := w.submit(celltest.Job{Name: "a"})
	if got.GetVersion() != 1 || lost.Load() == 0 || w.cell.Snapshot().Job(celltest.Name("a")).Record.GetVersion() != 1 {
		t.Fatalf("%v, %d replies", got, lost.Load())
	}
}

// Of many who change a job at once each gets a version of its own.
func TestConcurrentSubmits(t *testing.T) {
	w := serve(t, nil)
	const clients = 6
	versions := make(chan int64, clients)
	for i := range clients {
		go func() {
			resp, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{spec(celltest.Job{Name: "a", Count: i + 1})}})
			if err != nil {
				t.Error(err)
				versions <- 0
				return
			}
			versions <- resp.GetJobs()[0].GetVersion()
		}()
	}
	seen := map[int64]bool{}
	for range clients {
		seen[<-versions] = true
	}
	if len(seen) != clients || w.cell.Snapshot().Job(celltest.Name("a")).Record.GetVersion() != clients {
		t.Fatalf("versions given: %v", seen)
	}
}
