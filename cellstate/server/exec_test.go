package server_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestExec: what a caller and a program say goes to and fro, the program ends with its
// caller, and it is written down who has run what.
func TestExec(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a"})
	p := w.cell.Place("a", 0, "n1")
	w.seen()
	ctx, leave := context.WithCancel(w.ctx)
	defer leave()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 {
		caller, err := w.jobs.Exec(ctx)
		must(err)
		must(caller.Send(&ohmv1.ExecInput{Start: &ohmv1.ExecStart{Job: "a", AnyIndex: true, Command: []string{"cat", "x"}}}))
		a.until("exec request", func() bool { return len(a.execs) > n })
		req := a.execs[n]
		if req.GetTaskId() != cellstate.TaskID(p.Record()) || req.GetStart().GetCommand()[1] != "x" {
			t.Fatalf("the agent was asked for %v", req)
		}
		program, err := w.nodes.PushExec(w.ctx)
		must(err)
		must(program.Send(&ohmv1.ExecOutput{Id: req.GetId()}))
		must(caller.Send(&ohmv1.ExecInput{Stdin: []byte("in")}))
		if in, err := program.Recv(); err != nil || string(in.GetStdin()) != "in" {
			t.Fatalf("the program hears %v, %v", in, err)
		}
		must(program.Send(&ohmv1.ExecOutput{})) // a sign of life
		must(program.Send(&ohmv1.ExecOutput{Stderr: []byte("out")}))
		if out, err := caller.Recv(); err != nil || string(out.GetStderr()) != "out" {
			t.Fatalf("the caller hears %v, %v", out, err)
		}
		if n == 1 {
			leave()
			_, err := program.Recv()
			wantCode(t, err, codes.NotFound)
			break
		}
		must(program.Send(&ohmv1.ExecOutput{End: &ohmv1.ExecEnd{Code: 7}}))
		if out, err := caller.Recv(); err != nil || out.GetEnd().GetCode() != 7 {
			t.Fatalf("the caller hears %v, %v", out, err)
		}
		if _, err := caller.Recv(); err == nil {
			t.Fatal("after the end there is more")
		}
	}
	for _, c := range []struct {
		start *ohmv1.ExecStart
		code  codes.Code
	}{
		{&ohmv1.ExecStart{Job: "b", AnyIndex: true, Command: []string{"x"}}, codes.NotFound},
		{&ohmv1.ExecStart{Job: "a", Index: 4, Command: []string{"x"}}, codes.NotFound},
		{&ohmv1.ExecStart{Job: "a", AnyIndex: true}, codes.InvalidArgument},
	} {
		caller, err := w.jobs.Exec(w.ctx)
		must(err)
		must(caller.Send(&ohmv1.ExecInput{Start: c.start}))
		_, err = caller.Recv()
		wantCode(t, err, c.code)
	}
	var list *ohmv1.ListExecsResponse
	for ok := false; !ok; { // the second one's end is written down when its caller has gone
		var err error
		list, err = w.jobs.ListExecs(w.ctx, &ohmv1.ListExecsRequest{Job: "a"})
		must(err)
		ok = len(list.GetExecs()) == 2 && list.GetExecs()[0].GetEnded() != nil
	}
	first := list.GetExecs()[1]
	if first.GetResult() != "exited 7" || first.GetTask() != "a/main/0" || first.GetNode() != "n1" || first.GetWho() == "" || len(first.GetCommand()) != 2 {
		t.Errorf("the record is %v", first)
	}
	if result := list.GetExecs()[0].GetResult(); result == "" || result == "exited 0" {
		t.Errorf("of the one whose caller left: %q", result)
	}
	if other, err := w.jobs.ListExecs(w.ctx, &ohmv1.ListExecsRequest{Job: "a/main"}); err != nil || len(other.GetExecs()) > 0 {
		t.Errorf("of another job: %v, %v", other, err)
	}
}
