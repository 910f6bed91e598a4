package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/keeper"
	"github.com/ohmcell/ohm/cellstate/server"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// One task's whole life: submitted, placed, told to the agent, running, exited,
// released, and its job marked done by the keeper.
func TestTaskFromSubmitToDone(t *testing.T) {
	w := serve(t, nil)
	k := keeper.New(keeper.Config{Store: w.store, Mirror: w.mirror, Server: "s1"})
	ctx, stop := context.WithCancel(w.ctx)
	kept := make(chan error, 1)
	go func() { kept <- k.Run(ctx) }()
	defer func() { stop(); <-kept }()

	a := w.attach("n1", "one")
	if len(a.want) != 0 {
		t.Fatalf("a fresh node is told to run %v", a.want)
	}
	w.submit(celltest.Job{Name: "hello"})
	w.cell.Place("hello", 0, "n1")
	a.until("assignment", func() bool { return a.assignment("hello/main/0") != nil })
	got := a.assignment("hello/main/0")
	if got.GetStopCause() != "" || got.GetCommand()[0] != "true" || got.GetEnv()["OHM_TASK"] != "hello/main/0" || got.GetStop().GetSignal() != "SIGTERM" {
		t.Fatalf("assignment: %v", got)
	}

	a.report(state(got, task.Starting), state(got, task.Running))
	s := w.until("running", func(s *cellstate.Snapshot) bool { return taskRow(s, "hello", 0).Status.GetState() == task.Running })
	first := taskRow(s, "hello", 0).StatusRevision
	a.report(state(got, task.Running)) // what is stored already is not written again
	a.report(state(got, task.Starting))

	failed := state(got, task.Succeeded)
	a.report(failed)
	s = w.until("released", func(s *cellstate.Snapshot) bool {
		row := taskRow(s, "hello", 0)
		return row.Placement == nil && len(row.Ended) == 1
	})
	row := taskRow(s, "hello", 0)
	if row.Status != nil || row.Ended[0].GetStatus().GetState() != task.Succeeded || row.Ended[0].GetStatus().GetEnded() == nil {
		t.Fatalf("after the release: %v, ended %v", row.Status, row.Ended[0])
	}
	for batch, err := range w.store.Changes(w.ctx, first) {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Changes {
			if c.Key == row.Slot.StatusKey() && !c.Deleted {
				t.Fatalf("a status that told nothing new was written at %d: %v", c.Revision, c.Value)
			}
		}
		break
	}
	a.until("removal", func() bool { return len(a.want) == 0 })
	w.until("done", func(s *cellstate.Snapshot) bool {
		return s.Job(celltest.Name("hello")).Record.GetDone().GetState() == "Succeeded"
	})
}

func TestStopReachesTheAgent(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "web", Kind: "service", Precedence: 200})
	w.cell.Place("web", 0, "n1")
	a.until("assignment", func() bool { return a.assignment("web/main/0") != nil })
	if _, err := w.jobs.Stop(w.ctx, &ohmv1.StopJobsRequest{Jobs: []string{"web"}}); err != nil {
		t.Fatal(err)
	}
	a.until("stop", func() bool { return a.assignment("web/main/0").GetStopCause() == task.Stop })
	a.report(state(a.assignment("web/main/0"), task.Stopped))
	a.until("removal", func() bool { return len(a.want) == 0 })
}

func TestChangedJobGivesNoNewCommandToOldTasks(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "web"})
	w.cell.Place("web", 0, "n1")
	a.until("assignment", func() bool { return a.assignment("web/main/0") != nil })
	w.submit(celltest.Job{Name: "web", CPU: 200})
	a.until("stop", func() bool { return a.assignment("web/main/0").GetStopCause() == task.Stop })
	if got := a.assignment("web/main/0"); len(got.GetCommand()) != 0 {
		t.Fatalf("a task of version 1 was given the command of version 2: %v", got)
	}
}

func TestNewerSessionReplacesTheOlder(t *testing.T) {
	w := serve(t, nil)
	w.submit(celltest.Job{Name: "a"})
	old := w.attach("n1", "old")
	placed := w.cell.Place("a", 0, "n1").Revision
	next := w.attach("n1", "new")
	if next.assignment("a/main/0") == nil {
		t.Fatal("the newer session's complete lacks the node's placement")
	}
	wantCode(t, old.ended(), codes.FailedPrecondition)
	if got := w.seen().Node("n1").Alive.GetSession(); got != "new" {
		t.Fatalf("alive names session %q after the older one has ended", got)
	}
	for batch, err := range w.store.Changes(w.ctx, placed) {
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Changes {
			if c.Deleted {
				t.Errorf("%s was deleted at %d while sessions changed", c.Key, c.Revision)
			}
		}
		break // what had happened by now
	}
	next.cancel()
	w.until("detached", func(s *cellstate.Snapshot) bool { return s.Node("n1").Alive == nil })
}

func TestNewerSessionOnAnotherServer(t *testing.T) {
	w1 := serve(t, nil)
	w2 := serve(t, w1.store, func(c *server.Config) { c.Name = "s2" })
	old := w1.attach("n1", "old")
	next := w2.attach("n1", "new")
	wantCode(t, old.ended(), codes.FailedPrecondition)
	w1.restart() // its lease goes, too
	if got := w2.seen().Node("n1").Alive; got.GetSession() != "new" || got.GetServer() != "s2" {
		t.Fatalf("alive after the older session's server has gone: %v", got)
	}
	next.cancel()
	w2.until("detached", func(s *cellstate.Snapshot) bool { return s.Node("n1").Alive == nil })
}

// A report about an attempt that is not live any more, or of another node, changes nothing.
func TestLateStatusIsIgnored(t *testing.T) {
	w := serve(t, nil)
	a, b := w.attach("n1", "one"), w.attach("n2", "two")
	w.submit(celltest.Job{Name: "a", Retries: 1})
	p := w.cell.Place("a", 0, "n1")
	a.until("assignment", func() bool { return a.assignment("a/main/0") != nil })
	late := state(a.assignment("a/main/0"), task.Running)
	w.cell.Release(p.Slot, task.Failed)
	w.cell.Place("a", 0, "n2")
	b.until("assignment", func() bool { return b.assignment("a/main/0") != nil })
	present := state(b.assignment("a/main/0"), task.Running)

	ended := proto.CloneOf(late)
	ended.State, ended.Cause = task.Succeeded, task.Exited
	a.report(late, ended, present) // present is not n1's to report
	b.report(state(b.assignment("a/main/0"), task.Starting))
	s := w.until("starting", func(s *cellstate.Snapshot) bool { return taskRow(s, "a", 0).Status != nil })
	if row := taskRow(s, "a", 0); row.Status.GetState() != task.Starting || row.Placement.GetNode() != "n2" || len(row.Ended) != 1 {
		t.Fatalf("a late report counted: %v, %v, %d ended", row.Status, row.Placement, len(row.Ended))
	}
	b.report(present)
	w.until("running", func(s *cellstate.Snapshot) bool { return taskRow(s, "a", 0).Status.GetState() == task.Running })
	b.report(state(b.assignment("a/main/0"), task.Starting)) // never back
	b.report(state(b.assignment("a/main/0"), task.Stopping))
	w.until("stopping", func(s *cellstate.Snapshot) bool { return taskRow(s, "a", 0).Status.GetState() == task.Stopping })
}

func TestSilentAgentIsDetached(t *testing.T) {
	w := serve(t, nil, func(c *server.Config) { c.Limits.Silent = 200 * time.Millisecond })
	a := w.attach("n1", "one")
	err := a.ended()
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "nothing was heard") {
		t.Fatalf("the session of a silent agent ended with %v", err)
	}
	w.until("detached", func(s *cellstate.Snapshot) bool { return s.Node("n1").Alive == nil })
}

// A heartbeat costs no write: of all that is said here, one report is new.
func TestHeartbeatsAreFree(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.submit(celltest.Job{Name: "a"})
	before := w.cell.Place("a", 0, "n1").Revision
	a.until("assignment", func() bool { return a.assignment("a/main/0") != nil })
	for range 100 {
		a.send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Heartbeat{Heartbeat: &ohmv1.Heartbeat{}}})
	}
	a.report(&ohmv1.Status{Txn: "unknown", State: task.Running})
	a.report(state(a.assignment("a/main/0"), task.Starting))
	s := w.until("starting", func(s *cellstate.Snapshot) bool { return taskRow(s, "a", 0).Status != nil })
	if s.Revision() != before+1 {
		t.Fatalf("the store went from %d to %d", before, s.Revision())
	}
}

// An agent that stops reading loses its session, and nobody else waits for it.
func TestSlowAgentIsDetached(t *testing.T) {
	w := serve(t, nil, func(c *server.Config) { c.Limits.Slow, c.Limits.Silent = 200*time.Millisecond, 800*time.Millisecond })
	slow := w.open("n1", "slow") // reads nothing from here on
	w.until("attached", func(s *cellstate.Snapshot) bool { return s.Node("n1") != nil && s.Node("n1").Alive != nil })
	hear := time.NewTicker(50 * time.Millisecond)
	defer hear.Stop()
	big := spec(celltest.Job{Name: "big", CPU: 1, Count: 40})
	big.Groups[0].Env = map[string]string{"BLOB": strings.Repeat("x", 100<<10)}
	if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{big}}); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		w.cell.Place("big", i, "n1")
	}
	other := w.attach("n2", "quick")
	w.submit(celltest.Job{Name: "a"})
	w.cell.Place("a", 0, "n2")
	other.until("assignment", func() bool { return other.assignment("a/main/0") != nil })
	for range hear.C { // not silent, only slow
		if s, _ := w.mirror.Watch(); s.Node("n1").Alive == nil {
			break
		}
		_ = slow.stream.Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Heartbeat{Heartbeat: &ohmv1.Heartbeat{}}})
	}
}

func TestUnchangedFactsAreNotRewritten(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	first := w.seen().Node("n1")
	a.cancel()
	w.until("detached", func(s *cellstate.Snapshot) bool { return s.Node("n1").Alive == nil })
	w.attach("n1", "two")
	next := w.seen().Node("n1")
	if next.FactsRevision != first.FactsRevision || next.Fence != first.Fence {
		t.Fatalf("facts at %d, fence %d; were %d and %d", next.FactsRevision, next.Fence, first.FactsRevision, first.Fence)
	}
}

// The records of a server's sessions outlive the loss of its lease.
func TestLostLeaseIsReplaced(t *testing.T) {
	w := serve(t, nil, func(c *server.Config) { c.Limits.Lease = 300 * time.Millisecond })
	w.attach("n1", "one")
	before := w.seen().Node("n1").AliveRevision
	if err := w.store.Revoke(w.ctx, 1); err != nil { // the first lease that was granted
		t.Fatal(err)
	}
	w.until("alive again", func(s *cellstate.Snapshot) bool {
		n := s.Node("n1")
		return n.Alive.GetSession() == "one" && n.AliveRevision > before
	})
}

func TestClosingServerDetachesItsNodes(t *testing.T) {
	w := serve(t, nil)
	a := w.attach("n1", "one")
	w.restart()
	if a.ended() == nil {
		t.Fatal("the session outlived its server")
	}
	if n := w.cell.Snapshot().Node("n1"); n.Alive != nil {
		t.Fatalf("alive after the server has closed: %v", n.Alive)
	}
}

func TestGangEnvironment(t *testing.T) {
	w := serve(t, nil)
	a, b := w.attach("n1", "one"), w.attach("n2", "two")
	train := spec(celltest.Job{Name: "train", Kind: "ml", Count: 2})
	if _, err := w.jobs.Submit(w.ctx, &ohmv1.SubmitRequest{Jobs: []*ohmv1.JobSpec{train}}); err != nil {
		t.Fatal(err)
	}
	s := w.cell.Snapshot()
	name := celltest.Name("train")
	w.cell.Commit(s, celltest.Txn(s, cellstate.Atomic,
		celltest.Claim(s, celltest.Slot(s, name, "main", 0), "n2"), celltest.Claim(s, celltest.Slot(s, name, "main", 1), "n1")))
	a.until("assignment", func() bool { return a.assignment("train/main/1") != nil })
	b.until("assignment", func() bool { return b.assignment("train/main/0") != nil })
	first, second := b.assignment("train/main/0").GetEnv(), a.assignment("train/main/1").GetEnv()
	for key, want := range map[string]string{"OHM_WORLD_SIZE": "2", "OHM_HOSTS": "n2,n1", "MASTER_ADDR": "n2"} {
		if first[key] != want || second[key] != want {
			t.Errorf("%s is %q and %q, want %q", key, first[key], second[key], want)
		}
	}
	if first["OHM_RANK"] != "0" || second["OHM_RANK"] != "1" || first["MASTER_PORT"] != second["MASTER_PORT"] || first["MASTER_PORT"] == "" {
		t.Errorf("ranks %q, %q; ports %q, %q", first["OHM_RANK"], second["OHM_RANK"], first["MASTER_PORT"], second["MASTER_PORT"])
	}
	// One fails for good on n1: the other, on n2, is told to stop, and its world stays.
	a.report(state(a.assignment("train/main/1"), task.Failed))
	b.until("stop", func() bool { return b.assignment("train/main/0").GetStopCause() == task.Stop })
	if got := b.assignment("train/main/0").GetEnv(); got["OHM_HOSTS"] != "n2,n1" || got["OHM_RANK"] != "0" {
		t.Errorf("the world changed under a running member: %v", got)
	}
}

// A caller that opens a session and says nothing is not kept for ever, nor does it keep
// the server from closing.
func TestMuteSessionEnds(t *testing.T) {
	w := serve(t, nil, func(c *server.Config) { c.Limits.Slow = 100 * time.Millisecond })
	stream, err := w.nodes.Session(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	wantCode(t, err, codes.Unavailable)

	w = serve(t, nil)
	if stream, err = w.nodes.Session(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if _, err = stream.Recv(); err == nil {
		t.Fatal("the mute session outlived its server")
	}
}
