package server_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/server"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// execs are what is stored of programs that were run, oldest first.
func (w *world) execs() (all []*ohmv1.ExecRecord) {
	for r := range w.cell.Snapshot().Execs() {
		all = append(all, r)
	}
	return all
}

// TestExecIsWrittenDown: who has run what, when, where, and how it ended, stands in the store
// before the program begins and when it has ended, also for the next server; the oldest go.
func TestExecIsWrittenDown(t *testing.T) {
	store := memstore.New()
	w := serve(t, store)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a"})
	w.cell.Place("a", 0, "n1")
	const before = 1003 // more than are kept
	for i := range before {
		w.cell.Put(cellstate.Record{
			Key:   cellstate.ExecKey(fmt.Sprintf("%08d", i)),
			Value: &ohmv1.ExecRecord{Id: fmt.Sprintf("%08d", i), Namespace: "default", Task: "old/main/0", Server: "s1", Time: timestamppb.Now()},
		})
	}
	w.seen()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("ä", 3000)
	caller, err := w.jobs.Exec(w.ctx)
	must(err)
	must(caller.Send(&ohmv1.ExecInput{Start: &ohmv1.ExecStart{Job: "a", AnyIndex: true, Command: []string{"echo", long, "never"}, Terminal: true}}))
	a.until("exec request", func() bool { return len(a.execs) > 0 })
	all := w.execs()
	if len(all) != 1000 || all[0].GetId() != fmt.Sprintf("%08d", before-999) {
		t.Errorf("%d records are kept, from %s on", len(all), all[0].GetId())
	}
	begun := all[len(all)-1]
	if begun.GetTask() != "a/main/0" || begun.GetNode() != "n1" || begun.GetAttempt() != 1 || begun.GetWho() == "" || begun.GetNamespace() != "default" ||
		!begun.GetTerminal() || begun.GetTime() == nil || begun.GetEnded() != nil || begun.Code != nil || begun.GetResult() != "" {
		t.Errorf("while it runs the record is %v", begun)
	}
	if c := begun.GetCommand(); len(c) != 2 || c[0] != "echo" || !strings.HasPrefix(long+"…", strings.TrimSuffix(c[1], "…")) || len(c[1]) < 1500 || len(c[1]) > 2<<10+3 {
		t.Errorf("of the command it has %d words, %d bytes", len(c), len(strings.Join(c, "")))
	}
	program, err := w.nodes.PushExec(w.ctx)
	must(err)
	must(program.Send(&ohmv1.ExecOutput{Id: a.execs[0].GetId()}))
	must(program.Send(&ohmv1.ExecOutput{End: &ohmv1.ExecEnd{Code: 7}}))
	if out, err := caller.Recv(); err != nil || out.GetEnd().GetCode() != 7 {
		t.Fatalf("the caller hears %v, %v", out, err)
	}
	all = w.execs() // whoever knows the code finds it there
	if end := all[len(all)-1]; end.GetId() != begun.GetId() || end.Code == nil || end.GetCode() != 7 || end.GetEnded() == nil || end.GetResult() != "exited 7" {
		t.Errorf("when it has ended the record is %v", end)
	}

	w.restart()
	w = serve(t, store)
	w.seen()
	list, err := w.jobs.ListExecs(w.ctx, &ohmv1.ListExecsRequest{})
	must(err)
	if n := len(list.GetExecs()); n != 1000 || list.GetExecs()[0].GetCode() != 7 || list.GetExecs()[1].GetId() != fmt.Sprintf("%08d", before-1) {
		t.Errorf("the next server lists %d, first %v", n, list.GetExecs()[0])
	}
	if lost := list.GetExecs()[1]; lost.GetEnded() != nil || lost.GetResult() != "its end was not seen" {
		t.Errorf("of one that ran as its server ended it says %v", lost)
	}
	list, err = w.jobs.ListExecs(w.ctx, &ohmv1.ListExecsRequest{Namespace: "default", Job: "a"})
	if must(err); len(list.GetExecs()) != 1 {
		t.Errorf("of the job it lists %v", list.GetExecs())
	}
}

// TestExecUnwritten: what cannot be written down is not run.
func TestExecUnwritten(t *testing.T) {
	store := &fullStore{Store: memstore.New()}
	w := serve(t, store.Store, func(c *server.Config) { c.Store = store })
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a"})
	w.cell.Place("a", 0, "n1")
	w.seen()
	store.full.Store(true)
	caller, err := w.jobs.Exec(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.Send(&ohmv1.ExecInput{Start: &ohmv1.ExecStart{Job: "a", AnyIndex: true, Command: []string{"x"}}}); err != nil {
		t.Fatal(err)
	}
	_, err = caller.Recv()
	if wantCode(t, err, codes.FailedPrecondition); err == nil || !strings.Contains(err.Error(), "no record") {
		t.Errorf("it was told %v", err)
	}
	a.until("the agent asked for nothing", func() bool { return len(a.execs) == 0 })
	if all := w.execs(); len(all) > 0 {
		t.Errorf("the store has %v", all)
	}
}
