package server_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// asked waits for the agent's n-th log request.
func (a *agent) asked(n int) *ohmv1.LogRequest {
	a.w.t.Helper()
	a.until(fmt.Sprintf("log request %d", n), func() bool { return len(a.logs) > n })
	return a.logs[n]
}

// pushes answers a request.
func (w *world) pushes(chunks ...*ohmv1.LogChunk) {
	w.t.Helper()
	stream, err := w.nodes.PushLogs(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range chunks {
		if err := stream.Send(c); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		w.t.Fatal(err)
	}
}

// heard takes the next chunk, in short.
func heard(t *testing.T, stream grpc.ServerStreamingClient[ohmv1.LogChunk], want string) {
	t.Helper()
	c, err := stream.Recv()
	if errors.Is(err, io.EOF) && want == "" {
		return
	}
	if got := fmt.Sprintf("%d/%d %s at %d, %d dropped: %s%s", c.GetVersion(), c.GetAttempt(), c.GetStream(), c.GetOffset(), c.GetDropped(), c.GetData(), c.GetNote()); err != nil || got != want {
		t.Fatalf("heard %q, %v; want %q", got, err, want)
	}
}

// A reader who follows goes on with the next attempt, and ends when there will be none.
func TestFollowAcrossAttempts(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a", Retries: 3})
	first := w.cell.Place("a", 0, "n1")
	w.seen()
	five := int64(5)
	stream, err := w.jobs.Logs(w.ctx, &ohmv1.LogsRequest{Job: "a", AnyIndex: true, Follow: true, Tail: &five, Since: timestamppb.New(time.Unix(7, 0))})
	if err != nil {
		t.Fatal(err)
	}
	req := a.asked(0)
	if req.GetTaskId() != cellstate.TaskID(first.Record()) || req.GetTail() != 5 || req.GetSince().GetSeconds() != 7 || !req.GetFollow() {
		t.Fatalf("the agent was asked for %v", req)
	}
	w.pushes(&ohmv1.LogChunk{Id: req.GetId()}, &ohmv1.LogChunk{Stream: "stdout", Offset: 10, Dropped: 3, Data: []byte("one")})
	heard(t, stream, "1/1 stdout at 10, 3 dropped: one")
	// The agent has seen the end before the cell has: the reader waits.
	w.cell.Release(first.Slot, task.Failed)
	second := w.cell.Place("a", 0, "n1")
	req = a.asked(1)
	if req.GetTaskId() != cellstate.TaskID(second.Record()) || req.Tail != nil || req.GetSince() != nil {
		t.Fatalf("the agent was asked for %v", req)
	}
	w.pushes(&ohmv1.LogChunk{Id: req.GetId(), Stream: "stderr", Data: []byte("two")})
	heard(t, stream, "1/2 stderr at 0, 0 dropped: two")
	w.cell.Release(second.Slot, task.Succeeded)
	heard(t, stream, "")

	// One whose stream broke goes on at its place, in an attempt that is over, too.
	stream, err = w.jobs.Logs(w.ctx, &ohmv1.LogsRequest{Job: "a", AnyIndex: true, Follow: true, Tail: &five,
		From: &ohmv1.LogPosition{Version: 1, Attempt: 1, Stdout: 13}})
	if err != nil {
		t.Fatal(err)
	}
	req = a.asked(2)
	if req.GetTaskId() != cellstate.TaskID(first.Record()) || req.GetFrom().GetStdout() != 13 || req.Tail != nil {
		t.Fatalf("the agent was asked for %v", req)
	}
	// What cannot be had any more is said, and what follows is shown.
	w.pushes(&ohmv1.LogChunk{Id: req.GetId()}, &ohmv1.LogChunk{Error: "expired", Gone: true, Expired: timestamppb.New(time.Unix(0, 0))})
	heard(t, stream, "1/1  at 0, 0 dropped: the rest of attempt 1 cannot be had: the log expired at 1970-01-01T00:00:00Z")
	req = a.asked(3)
	if req.GetTaskId() != cellstate.TaskID(second.Record()) {
		t.Fatalf("the agent was asked for %v", req)
	}
	w.pushes(&ohmv1.LogChunk{Id: req.GetId()})
	heard(t, stream, "")
}

// The log of a task is asked for as soon as it is placed, and no sooner than its agent knows of
// the task; by the first message of a session, too.
func TestLogOfTheNew(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	follow := func(job string) {
		t.Helper()
		w.submit(celltest.Job{Name: job})
		stream, err := w.jobs.Logs(w.ctx, &ohmv1.LogsRequest{Job: job, AnyIndex: true, Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the world
			for err == nil {
				_, err = stream.Recv()
			}
		}()
	}
	const jobs = 20
	for i := range jobs {
		name := fmt.Sprint("j", i)
		follow(name)
		w.cell.Place(name, 0, "n1")
		if id := a.asked(i).GetTaskId(); a.unknown {
			t.Fatalf("asked for the log of %s before the agent knows of it", id)
		}
	}
	a.cancel()
	w.submit(celltest.Job{Name: "next"})
	w.cell.Place("next", 0, "n1")
	w.seen()
	again := w.open("n1", "two")
	go func() { // ends with the world
		for err := error(nil); err == nil || status.Code(err) == codes.Unavailable; { // until the session is there
			stream, broken := w.jobs.Logs(w.ctx, &ohmv1.LogsRequest{Job: "next", AnyIndex: true})
			if err = broken; err == nil {
				_, err = stream.Recv()
			}
		}
	}()
	if again.asked(0); again.unknown {
		t.Error("asked for a log before Complete")
	}
}

// A log that was removed is not found, and it is said since when.
func TestLogExpired(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a", Retries: 3})
	w.cell.Release(w.cell.Place("a", 0, "n1").Slot, task.Failed)
	w.seen()
	for n, c := range []struct {
		last *ohmv1.LogChunk
		says string
	}{
		{&ohmv1.LogChunk{Error: "x", Gone: true, Expired: timestamppb.New(time.Unix(60, 0))}, "the log expired at 1970-01-01T00:01:00Z"},
		{&ohmv1.LogChunk{Error: "node n1 knows no task", Gone: true}, "the log is not there, or not any more: node n1 knows no task"},
	} {
		answer := make(chan error, 1)
		go func() {
			_, err := readLog(w, &ohmv1.LogsRequest{Job: "a", AnyIndex: true, Attempt: 1})
			answer <- err
		}()
		w.pushes(&ohmv1.LogChunk{Id: a.asked(n).GetId()}, c.last)
		err := <-answer
		wantCode(t, err, codes.NotFound)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v does not say %q", err, c.says)
		}
	}
}
