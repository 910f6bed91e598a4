package server_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/ability"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// What serves is told as it is: a task that starts, is not ready, leaves or has ended is not there.
// Whoever watches is told each change, and no more.
func TestEndpoints(t *testing.T) {
	w := serve(t, nil)
	given := spec(celltest.Job{Name: "api", Kind: "service", Count: 3, CPU: 1})
	g := given.Groups[0]
	g.Ports = []*ohmv1.Port{{Name: "debug"}, {Name: "http"}} // dynamic ones
	g.Health = &ohmv1.Health{Ready: &ohmv1.Check{Tcp: &ohmv1.TCPCheck{Port: "http"}, Interval: durationpb.New(1e9), Timeout: durationpb.New(1e9), Failures: 1}}
	for _, n := range []string{"n1", "n2"} {
		w.cell.Node(celltest.Node{Name: n, Ports: [2]int32{8000, 9999}, Capabilities: ability.OfGroup(g).Names()})
	}
	if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{given}}); err != nil {
		t.Fatal(err)
	}
	stream, err := w.jobs.WatchEndpoints(w.ctx, &ohmv1.EndpointsRequest{Job: "api", Port: "http"})
	if err != nil {
		t.Fatal(err)
	}
	is := func(what string, want ...string) {
		t.Helper()
		w.seen()
		resp, err := w.jobs.Endpoints(w.ctx, &ohmv1.EndpointsRequest{Job: "api", Port: "http"})
		if err != nil {
			t.Fatal(err)
		}
		watched, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*ohmv1.EndpointsResponse{resp, watched} {
			var got []string
			for _, e := range r.GetEndpoints() {
				got = append(got, e.GetTask()+"="+e.GetAddress())
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: %v; want %v", what, got, want)
			}
		}
	}
	is("nothing is placed")
	status := func(p *cellstate.Placement, ready bool) {
		st := celltest.StatusOf(p, task.Running)
		st.Ready = ready
		w.cell.Put(cellstate.Record{Key: p.Slot.StatusKey(), Value: st, Read: w.cell.Snapshot().Job(p.Slot.JobName()).Task(p.Slot).StatusRevision})
	}
	place := func(i int, node string) *cellstate.Placement {
		s := w.cell.Snapshot()
		claim := celltest.Claim(s, celltest.Slot(s, celltest.Name("api"), "main", i), cellstate.NodeName(node))
		claim.Ports = []*ohmv1.Port{{Name: "debug", Number: int32(9000 + i)}, {Name: "http", Number: int32(8000 + i)}}
		w.cell.Commit(s, celltest.Txn(s, cellstate.Incremental, claim))
		return w.cell.Snapshot().Job(celltest.Name("api")).Task(claim.Slot).Placement
	}
	p0, p1 := place(0, "n1"), place(1, "n2")
	status(p0, false) // runs, and is not ready
	status(p1, true)
	is("one is ready", "api/main/1=n2:8001")
	status(p0, true)
	is("both are", "api/main/0=n1:8000", "api/main/1=n2:8001")
	if resp, err := w.jobs.Endpoints(w.ctx, &ohmv1.EndpointsRequest{Job: "api", Group: "main"}); err != nil || len(resp.GetEndpoints()) != 4 {
		t.Errorf("of all ports: %v, %v", resp, err)
	}
	_, err = w.jobs.Endpoints(w.ctx, &ohmv1.EndpointsRequest{Job: "api", Group: "other"})
	wantCode(t, err, codes.NotFound)
	w.cell.End(p1.Slot, task.Exited)
	is("one has ended", "api/main/0=n1:8000")
	if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"api"}}); err != nil {
		t.Fatal(err)
	}
	is("the job is stopped")
	if _, err := stream.Recv(); err == nil || fmt.Sprint(err) != "EOF" {
		t.Errorf("after the end: %v", err)
	}
}
