package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/cellstate/server"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func after(job string, ok ...string) *ohmv1.JobSpec {
	s := spec(celltest.Job{Name: job})
	if len(ok) > 0 {
		s.After = &ohmv1.After{Ok: ok}
	}
	return s
}

// The names that a job follows mean the newest runs of when it is submitted, of the same request
// before others; a name that means nothing, a service and a circle are refused.
func TestAfter(t *testing.T) {
	w := serve(t, nil)
	submit := func(specs ...*ohmv1.JobSpec) (*ohmv1.SubmitResponse, error) {
		return w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: specs, NewRun: true})
	}
	runs := func(job string) string {
		return fmt.Sprint(w.cell.Snapshot().Job(celltest.Name(job)).Record.GetAfter())
	}
	if _, err := submit(after("b", "a")); err == nil || !strings.Contains(err.Error(), "job a, which is not known") {
		t.Errorf("after nothing: %v", err)
	}
	resp, err := submit(after("b", "a"), after("a")) // in whatever order they are given
	if err != nil || resp.GetJobs()[0].GetJob() != "b" || resp.GetJobs()[1].GetJob() != "a" {
		t.Fatalf("%v, %v", resp, err)
	}
	if got := runs("b"); !strings.Contains(got, "run:1") {
		t.Errorf("b follows %s", got)
	}
	if _, err := submit(after("a")); err != nil { // run 2, which waits
		t.Fatal(err)
	}
	if _, err := submit(after("c", "a")); err != nil || !strings.Contains(runs("c"), "run:2") {
		t.Errorf("c follows %s, %v", runs("c"), err)
	}
	if _, err := submit(spec(celltest.Job{Name: "web", Kind: "service"})); err != nil {
		t.Fatal(err)
	}
	_, err = submit(after("d", "web"))
	wantCode(t, err, codes.InvalidArgument)
	_, err = submit(after("x", "y"), after("y", "z"), after("z", "x"))
	if wantCode(t, err, codes.InvalidArgument); !strings.Contains(err.Error(), "x after y, y after z, z after x") {
		t.Errorf("a circle: %v", err)
	}
	changed := proto.CloneOf(after("c", "b"))
	_, err = w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{changed}})
	wantCode(t, err, codes.FailedPrecondition)
}

// counting counts the writes that a server commits.
type counting struct {
	*memstore.Store
	commits, writes atomic.Int64
}

func (c *counting) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	c.commits.Add(1)
	c.writes.Add(int64(len(writes)))
	return c.Store.Commit(ctx, writes...)
}

// Field case 119: a graph of a thousand jobs is one write for each hundred, and is so again where
// each of them begins another run.
func TestAThousandJobs(t *testing.T) {
	store := &counting{Store: memstore.New()}
	w := serve(t, store.Store, func(c *server.Config) { c.Store = store })
	for run := range int64(2) {
		before := store.writes.Load()
		for part := range 10 {
			var specs []*ohmv1.JobSpec
			for i := range 100 {
				n := 100*part + i
				var ok []string
				for _, back := range []int{1, 7, 50} {
					if n >= back {
						ok = append(ok, fmt.Sprintf("j%d", n-back))
					}
				}
				specs = append(specs, after(fmt.Sprintf("j%d", n), ok...))
			}
			if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: specs, NewRun: true}); err != nil {
				t.Fatal(err)
			}
		}
		want := int64(10 + 10*3*run) // what is told of the runs before goes first, in parts
		if n := store.writes.Load() - before; n > want {
			t.Errorf("run %d of a thousand jobs took %d writes, want at most %d", run+1, n, want)
		}
		row := w.cell.Snapshot().Job(celltest.Name("j999"))
		if row.Record.GetRun() != run+1 || len(row.Record.GetAfter()) != 3 || row.Record.GetAfter()[0].GetRun() != run+1 {
			t.Fatalf("j999 is run %d after %v", row.Record.GetRun(), row.Record.GetAfter())
		}
		var ended []cellstate.Record
		for j := range w.cell.Snapshot().Jobs() {
			record := proto.CloneOf(j.Record)
			record.Done = &ohmv1.Outcome{State: "Succeeded"}
			ended = append(ended, cellstate.Record{Key: cellstate.JobKey(j.Name), Value: record, Read: j.Revision})
		}
		w.cell.Put(ended...)
		w.until("the end", settled("j999"))
	}
}
