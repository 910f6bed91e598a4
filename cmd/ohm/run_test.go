package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// jobStatus is a status of job from the submission on: version 1, revision 100.
func jobStatus(job, kind, state string, c *ohmv1.GroupCounts) *ohmv1.JobStatus {
	c.Name = "main"
	return &ohmv1.JobStatus{Namespace: "default", Job: job, Kind: kind, State: state, Groups: []*ohmv1.GroupCounts{c},
		Version: 1, Revision: 100, Elapsed: durationpb.New(1900 * time.Millisecond)}
}

func file(job, kind string) string {
	return strings.NewReplacer("hello\nkind", job+"\nkind", "batch", kind).Replace(helloFile)
}

func TestRunSubmits(t *testing.T) {
	f := startFake(t, &fake{})
	hello := write(t, "hello.yaml", helloFile)
	r := ohm(t, f.address, call{args: []string{"run", hello, "-"}, stdin: file("web", "service")})
	if want := "hello  batch  version 1  submitted\nweb  service  version 1  submitted\n"; r.code != exitDone || r.stdout != want || r.stderr != "see how it goes: `ohm status hello`\n" {
		t.Errorf("got %s", r.text(f.address))
	}
	// One request with both, and an id that sorts by time.
	if len(f.submits) != 1 || len(f.submits[0].Jobs) != 2 {
		t.Fatalf("got %v", f.submits)
	}
	if id, err := ulid.ParseStrict(f.submits[0].RequestId); err != nil || ulid.Time(id.Time()).Unix() != noon().Unix() {
		t.Errorf("request id %q: %v", f.submits[0].RequestId, err)
	}
	if r := ohm(t, f.address, call{args: []string{"apply", hello}}); r.code != exitDone || !f.submits[0].NewRun || f.submits[1].NewRun {
		t.Errorf("a new run, and a change in place: %v", f.submits)
	}
	if r := ohm(t, f.address, call{args: []string{"run", hello, "--only-failed"}}); r.code != exitUsage {
		t.Errorf("got %s", r.text(f.address))
	}
	if j := f.submits[0].Jobs[0]; j.Namespace != "default" || j.Name != "hello" || j.Groups[0].Count != 4 {
		t.Errorf("submitted %v", j)
	}
	for format, want := range map[string]string{
		"json": `{"jobs":[{"namespace":"n","job":"hello","version":1,"unchanged":false,"notices":[],"scaled":[],"run":0,"waits":false}],"revision":100}` + "\n",
		"name": "hello\n",
	} {
		r = ohm(t, f.address, call{args: []string{"run", hello, "--request-id", "R", "-n", "n", "-o", format}})
		if r.code != exitDone || r.stdout != want {
			t.Errorf("%s: %s", format, r.text(f.address))
		}
		if last := f.submits[len(f.submits)-1]; last.RequestId != "R" || last.Jobs[0].Namespace != "n" {
			t.Errorf("submitted %v", last)
		}
	}
}

// Faults of all files are listed at once, with their place, and nothing is sent.
func TestRunRefusesFiles(t *testing.T) {
	f := startFake(t, &fake{})
	bad := write(t, "bad.yaml", strings.Replace(helloFile, "64Mi", "512m", 1))
	typo := strings.Replace(helloFile, "count", "cout", 1)
	r := ohm(t, f.address, call{args: []string{"run", bad, "-"}, stdin: typo})
	if r.code != exitUsage || r.stdout != "" || !strings.HasSuffix(r.stderr, "\nohm: nothing was submitted: 2 faults\n") {
		t.Errorf("got %s", r.text(f.address))
	}
	for _, want := range []string{bad + ":7:13: ", "512M", "stdin:5:5: ", `"count"`} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("%q is not in %s", want, r.stderr)
		}
	}
	var faults []struct {
		File, Message string
		Line, Column  int
	}
	r = ohm(t, f.address, call{args: []string{"run", bad, "-o", "json"}})
	if err := json.Unmarshal([]byte(r.stdout), &faults); err != nil || r.code != exitUsage || len(faults) != 1 || faults[0].File != bad || faults[0].Line != 7 || faults[0].Column != 13 {
		t.Errorf("%v: %s", err, r.text(f.address))
	}
	hello := write(t, "hello.yaml", helloFile)
	if r = ohm(t, f.address, call{args: []string{"run", hello, "-"}, stdin: helloFile}); r.code != exitUsage || !strings.Contains(r.stderr, `are both job "hello"`) {
		t.Errorf("got %s", r.text(f.address))
	}
	elsewhere := write(t, "hello.yaml", "namespace: a\n"+helloFile)
	if r = ohm(t, f.address, call{args: []string{"run", elsewhere, "-n", "b"}}); r.code != exitUsage || !strings.Contains(r.stderr, `is in namespace "a", and --namespace says "b"`) {
		t.Errorf("got %s", r.text(f.address))
	}
	if len(f.submits) > 0 {
		t.Errorf("submitted %v", f.submits)
	}
	// The namespace of the environment is only for files that name none.
	if r = ohm(t, f.address, call{args: []string{"run", elsewhere, hello}, env: []string{"OHM_NAMESPACE=b"}}); r.code != exitDone || f.submits[0].Jobs[0].Namespace != "a" || f.submits[0].Jobs[1].Namespace != "b" {
		t.Errorf("submitted %v: %s", f.submits, r.text(f.address))
	}
}

// An answer that got lost is asked for again, under the same id; a refusal is not.
func TestRunRepeats(t *testing.T) {
	f := startFake(t, &fake{submitErrs: []error{status.Error(codes.Unavailable, "no leader"), status.Error(codes.Unavailable, "no leader"), nil}})
	r := ohm(t, f.address, call{args: []string{"run", "-"}, stdin: helloFile})
	if r.code != exitDone || len(f.submits) != 3 || f.submits[0].RequestId == "" || f.submits[0].RequestId != f.submits[2].RequestId {
		t.Errorf("%d submissions %v: %s", len(f.submits), f.submits, r.text(f.address))
	}
	f.submitErrs = []error{status.Error(codes.AlreadyExists, `request "R" has other content`)}
	r = ohm(t, f.address, call{args: []string{"run", "-", "--request-id", "R"}, stdin: helloFile})
	if r.code != exitConflict || r.stderr != "ohm: request \"R\" has other content\n" || len(f.submits) != 4 {
		t.Errorf("got %s", r.text(f.address))
	}
	// The time for it is bounded; here each look at the clock takes three halves of a second.
	clock := noon()
	for range 100 {
		f.submitErrs = append(f.submitErrs, status.Error(codes.Unavailable, "no leader"))
	}
	r = ohm(t, f.address, call{args: []string{"run", "-", "--request-id", "R"}, stdin: helloFile, now: func() time.Time {
		clock = clock.Add(1500 * time.Millisecond)
		return clock
	}})
	if r.code != exitUnreachable || len(f.submits) != 7 || r.stderr != "whether the jobs were stored is not known; to repeat without harm: --request-id R\n"+
		"ohm: the cell at "+f.address+" could not answer: no leader; try again\n" {
		t.Errorf("%d submissions: %s", len(f.submits), r.text(f.address))
	}
}

// What --wait waits for, how it says so, and with which code.
func TestRunWait(t *testing.T) {
	type counts = ohmv1.GroupCounts
	for name, c := range map[string]struct {
		kind   string
		stream []*ohmv1.JobStatus
		want   string
	}{
		"batch that succeeds": {"batch", []*ohmv1.JobStatus{
			jobStatus("hello", "batch", "Running", &counts{Count: 4, Running: 4}),
			jobStatus("hello", "batch", "Succeeded", &counts{Count: 4, Succeeded: 4}),
		}, "exit 0\n--- stdout\nhello  batch  4/4 succeeded  1.9s\n--- stderr\n"},
		"batch that fails": {"batch", []*ohmv1.JobStatus{
			jobStatus("hello", "batch", "Failed", &counts{Count: 4, Succeeded: 3, Failed: 1}),
		}, "exit 1\n--- stdout\nhello  batch  3/4 succeeded, 1 failed  1.9s\n--- stderr\nohm: job hello failed: hello/main/2 exited 7; see `ohm explain hello` and `ohm logs hello/main/2`\n"},
		"ml that somebody stops": {"ml", []*ohmv1.JobStatus{
			jobStatus("hello", "ml", "Stopping", &counts{Count: 4, Stopping: 4}),
			jobStatus("hello", "ml", "Stopped", &counts{Count: 4, Stopped: 4}),
		}, "exit 7\n--- stdout\nhello  ml  0/4 succeeded, 4 stopped  1.9s\n--- stderr\nohm: job hello was stopped\n"},
		"service that runs": {"service", []*ohmv1.JobStatus{
			jobStatus("hello", "service", "Running", &counts{Count: 4, Running: 3, Starting: 1}),
			jobStatus("hello", "service", "Running", &counts{Count: 4, Running: 4}),
		}, "exit 0\n--- stdout\nhello  service  4/4 running  1.9s\n--- stderr\n"},
		"submitted again meanwhile": {"batch", []*ohmv1.JobStatus{
			{Job: "hello", Kind: "batch", State: "Running", Version: 2, Revision: 120, Groups: []*counts{{Count: 1, Running: 1}}},
		}, "exit 5\n--- stdout\nhello  batch  0/1 succeeded, 1 running\n--- stderr\nohm: job hello was submitted again meanwhile, as version 2; see `ohm status hello`\n"},
		"news from before the submission": {"batch", []*ohmv1.JobStatus{
			{Job: "hello", Kind: "batch", State: "Failed", Version: 1, Revision: 99},
			jobStatus("hello", "batch", "Succeeded", &counts{Count: 4, Succeeded: 4}),
		}, "exit 0\n--- stdout\nhello  batch  4/4 succeeded  1.9s\n--- stderr\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t, &fake{watch: map[string][][]*ohmv1.JobStatus{"hello": {c.stream}},
				tasks: []*ohmv1.TaskView{{Task: "hello/main/2", State: "Failed", Cause: "exited 7"}}})
			stdin := file("hello", c.kind)
			if r := ohm(t, f.address, call{args: []string{"run", "-", "--wait"}, stdin: stdin}); r.text(f.address) != c.want {
				t.Errorf("got %s\nwant %s", r.text(f.address), c.want)
			}
			// The same code with JSON, and the last status on stdout.
			r := ohm(t, f.address, call{args: []string{"run", "-", "--wait", "-o", "json"}, stdin: stdin})
			var got struct{ Job, State string }
			last := c.stream[len(c.stream)-1]
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || got.Job != "hello" || got.State != last.State || !strings.HasPrefix(c.want, fmt.Sprintf("exit %d\n", r.code)) {
				t.Errorf("%v: %s", err, r.text(f.address))
			}
		})
	}
}

func TestRunWaitsForSeveral(t *testing.T) {
	f := startFake(t, &fake{watch: map[string][][]*ohmv1.JobStatus{
		"a": {{jobStatus("a", "batch", "Stopped", &ohmv1.GroupCounts{Count: 1, Stopped: 1})}},
		"b": {{jobStatus("b", "batch", "Failed", &ohmv1.GroupCounts{Count: 1, Failed: 1})}},
		"c": {{jobStatus("c", "batch", "Succeeded", &ohmv1.GroupCounts{Count: 1, Succeeded: 1})}},
	}})
	args := []string{"run", "--wait"}
	for _, job := range []string{"c", "a", "b"} {
		args = append(args, write(t, job+".yaml", file(job, "batch")))
	}
	f.watch["b"][0][0].Message = "the gang found no room within 1m0s"
	want := "exit 1\n--- stdout\nc  batch  1/1 succeeded  1.9s\na  batch  0/1 succeeded, 1 stopped  1.9s\nb  batch  0/1 succeeded, 1 failed  1.9s\n" +
		"--- stderr\nohm: job a was stopped\nohm: job b failed: the gang found no room within 1m0s; see `ohm explain b` and `ohm logs b`\n"
	if r := ohm(t, f.address, call{args: args}); r.text(f.address) != want {
		t.Errorf("got %s\nwant %s", r.text(f.address), want)
	}
}

// A server that goes away is looked for again; the waiting goes on.
func TestRunWaitReconnects(t *testing.T) {
	running := jobStatus("hello", "batch", "Running", &ohmv1.GroupCounts{Count: 1, Running: 1})
	done := jobStatus("hello", "batch", "Succeeded", &ohmv1.GroupCounts{Count: 1, Succeeded: 1})
	f := startFake(t, &fake{watch: map[string][][]*ohmv1.JobStatus{"hello": {{running}, {}, {running, done}}}})
	if r := ohm(t, f.address, call{args: []string{"run", "-", "--wait"}, stdin: helloFile}); r.code != exitDone || r.stderr != "" {
		t.Errorf("got %s", r.text(f.address))
	}
	// Not for ever: here each look at the clock takes twenty seconds.
	f.watch["hello"] = nil
	for range 100 {
		f.watch["hello"] = append(f.watch["hello"], nil)
	}
	clock := noon()
	r := ohm(t, f.address, call{args: []string{"run", "-", "--wait"}, stdin: helloFile, now: func() time.Time {
		clock = clock.Add(20 * time.Second)
		return clock
	}})
	if want := "ohm: lost sight of job hello, which goes on: the cell at CELL could not answer: the server goes away; try again\n"; r.code != exitUnreachable || !strings.HasSuffix(r.text(f.address), want) {
		t.Errorf("got %s", r.text(f.address))
	}
}

func TestRunWaitEnds(t *testing.T) {
	waiting := jobStatus("hello", "batch", "Pending", &ohmv1.GroupCounts{Count: 4, Waiting: 4})
	waiting.Message = "scheduler batch not seen for 40 s"
	f := startFake(t, &fake{watch: map[string][][]*ohmv1.JobStatus{"hello": {{waiting}}}})
	r := ohm(t, f.address, call{args: []string{"run", "-", "--wait", "--timeout", "300ms"}, stdin: helloFile})
	want := "exit 6\n--- stdout\nhello  batch  0/4 succeeded, 4 waiting  1.9s\n--- stderr\n" +
		"ohm: job hello goes on after --timeout 300ms; it is Pending: scheduler batch not seen for 40 s; see `ohm status hello`, or end it with `ohm stop hello`\n"
	if r.text(f.address) != want {
		t.Errorf("got %s\nwant %s", r.text(f.address), want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(300*time.Millisecond, cancel).Stop()
	r = ohm(t, f.address, call{args: []string{"run", "-", "--wait"}, stdin: helloFile, ctx: ctx})
	if r.code != exitCancelled || !strings.HasPrefix(r.stderr, "ohm: no longer waiting for job hello, which goes on; it is Pending") {
		t.Errorf("got %s", r.text(f.address))
	}
}

func TestProgressOnlyOnATerminal(t *testing.T) {
	f := startFake(t, &fake{watch: map[string][][]*ohmv1.JobStatus{"hello": {{
		jobStatus("hello", "batch", "Running", &ohmv1.GroupCounts{Count: 4, Succeeded: 1, Running: 3}),
		jobStatus("hello", "batch", "Succeeded", &ohmv1.GroupCounts{Count: 4, Succeeded: 4}),
	}}}})
	r := ohm(t, f.address, call{args: []string{"run", "-", "--wait"}, stdin: helloFile, terminal: true})
	want := "\r\x1b[Khello  batch  1/4 succeeded, 3 running  1.9s\r\x1b[Khello  batch  4/4 succeeded  1.9s\r\x1b[K"
	if r.code != exitDone || r.stderr != want || r.stdout != "hello  batch  4/4 succeeded  1.9s\n" {
		t.Errorf("got %q", r.text(f.address))
	}
}
