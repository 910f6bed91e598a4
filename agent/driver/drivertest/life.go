package drivertest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

func exitCodes(t *testing.T, b *bench) {
	for _, code := range []int{0, 42, 255} {
		b.expectExit(b.ended(b.start(b.Work(code, 50*time.Millisecond))), code)
	}
}

func exitWhileNobodyLooks(t *testing.T, b *bench) {
	id := b.start(b.Work(42, 10*time.Millisecond))
	b.restart()
	b.expectExit(b.ended(id), 42)
	b.restart()
	b.expectExit(b.ended(id), 42)
}

func unknownTask(t *testing.T, b *bench) {
	ctx, id := b.Context(), "never-started"
	if _, ok, err := b.driver.Observe(ctx, id); ok || err != nil {
		t.Errorf("observe: known %v, %v", ok, err)
	}
	for what, err := range map[string]error{
		"signal":      b.driver.Signal(ctx, id, syscall.SIGTERM),
		"kill":        b.driver.Kill(ctx, id),
		"remove":      b.driver.Remove(ctx, id),
		"remove logs": b.driver.RemoveLogs(ctx, id),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if r, err := b.driver.Logs(ctx, id, stream, driver.From{}); !isNotExist(err) {
			t.Errorf("logs: %v, %v", r, err)
		}
	}
	if r, err := b.driver.Logs(ctx, id, "stdin", driver.From{}); err == nil || isNotExist(err) {
		t.Errorf("logs of no stream: %v, %v", r, err)
	}
}

func badTask(t *testing.T, b *bench) {
	for _, bad := range []driver.Task{{}, {ID: "no-command"}, {Command: []string{"true"}}} {
		if err := b.driver.Start(b.Context(), bad); err == nil {
			t.Errorf("%+v was started", bad)
		}
		if _, ok, _ := b.driver.Observe(b.Context(), bad.ID); ok {
			t.Errorf("%+v is known", bad)
		}
	}
}

func startTwice(t *testing.T, b *bench) {
	work := b.named(b.Work(0, 0))
	b.must(b.driver.Start(b.Context(), work))
	first := b.observe(work.ID)
	b.must(b.driver.Start(b.Context(), work))
	b.restart()
	b.must(b.driver.Start(b.Context(), work))
	if again := b.observe(work.ID); again != first || first.State != task.Running {
		t.Errorf("was %+v, is %+v", first, again)
	}
	b.must(b.driver.Kill(b.Context(), work.ID))
	end := b.ended(work.ID)
	b.must(b.driver.Start(b.Context(), work)) // an ended task does not start again either
	if again := b.observe(work.ID); again != end {
		t.Errorf("was %+v, is %+v", end, again)
	}
}

func startTenAtOnce(t *testing.T, b *bench) {
	work := b.named(b.Work(3, 300*time.Millisecond))
	other := b.Again(t)
	var starters sync.WaitGroup
	for i := range 10 {
		d := []driver.Driver{b.driver, other}[i%2]
		starters.Go(func() {
			if err := d.Start(b.Context(), work); err != nil {
				t.Errorf("start: %v", err)
			}
		})
	}
	starters.Wait()
	if !slices.Contains(b.Lacks, Processes) {
		all := b.processes(work.ID)
		shells := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !strings.Contains(p, " sh -c") || strings.Contains(p, "/init ") })
		commands := slices.DeleteFunc(slices.Clone(shells), func(p string) bool { // not what a shell has forked
			return slices.ContainsFunc(shells, func(parent string) bool { return leading(parent) == parentOf(leading(p)) })
		})
		if len(commands) > 1 {
			t.Errorf("started more than once: %q", all)
		}
	}
	list, err := b.driver.List(b.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("listed %+v, %v", list, err)
	}
	b.expectExit(b.ended(work.ID), 3)
}

func startAfterRemove(t *testing.T, b *bench) {
	work := b.named(b.Work(0, time.Millisecond))
	b.must(b.driver.Start(b.Context(), work))
	b.ended(work.ID)
	b.must(b.driver.Remove(b.Context(), work.ID))
	if err := b.driver.Start(b.Context(), work); err == nil {
		t.Error("it was started a second time")
	}
	b.clean(work.ID)
}

func list(t *testing.T, b *bench) {
	ids := []string{b.start(b.Work(0, 0)), b.start(b.Work(0, 0)), b.start(b.Work(7, time.Millisecond))}
	b.ended(ids[2])
	for range 2 {
		list, err := b.driver.List(b.Context())
		b.must(err)
		if len(list) != len(ids) {
			t.Errorf("listed %d of %d", len(list), len(ids))
		}
		for _, o := range list {
			if !slices.Contains(ids, o.ID) || o != b.observe(o.ID) {
				t.Errorf("listed %+v", o)
			}
		}
		b.restart()
	}
}

func watch(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(b.Context())
	calls := make(chan string, 1000)
	done := make(chan error, 1)
	go func() { done <- b.driver.Watch(ctx, func(id string) { calls <- id }) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("watch: %v", err)
		}
	}()
	heard := func(id string) {
		t.Helper()
		timeout := time.NewTimer(patience)
		defer timeout.Stop()
		for {
			select {
			case got := <-calls:
				if got == id {
					return
				}
			case <-timeout.C:
				t.Fatalf("nothing was heard of %s", id)
			}
		}
	}
	long := b.start(b.Work(0, 0))
	heard(long)
	short := b.start(b.Work(5, 300*time.Millisecond))
	heard(short)
	heard(short)
	if o := b.observe(short); !task.Ended(o.State) {
		t.Errorf("heard of a change, but it is %+v", o)
	}
	b.must(b.Again(t).Kill(b.Context(), long))
	heard(long)
}

func signalEnds(t *testing.T, b *bench) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		id := b.start(b.Work(0, 0))
		b.must(b.driver.Signal(b.Context(), id, sig))
		b.expectSignal(b.ended(id), int(sig))
	}
}

func killEnds(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 0))
	b.must(b.driver.Kill(b.Context(), id))
	b.expectSignal(b.ended(id), int(syscall.SIGKILL))
	b.must(b.driver.Kill(b.Context(), id))
}

func signalToTheEnded(t *testing.T, b *bench) {
	id := b.start(b.Work(4, time.Millisecond))
	b.ended(id)
	for range 2 {
		b.must(b.driver.Signal(b.Context(), id, syscall.SIGTERM))
		b.must(b.driver.Kill(b.Context(), id))
		b.expectExit(b.observe(id), 4)
		b.restart()
	}
}

func removeRefusesTheRunning(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 0))
	before := b.observe(id)
	if err := b.driver.Remove(b.Context(), id); err == nil {
		t.Error("a running task was removed")
	}
	if after := b.observe(id); after != before {
		t.Errorf("was %+v, is %+v", before, after)
	}
}

func removeLeavesOnlyLogs(t *testing.T, b *bench) {
	id := b.start(b.Work(0, time.Millisecond))
	b.ended(id)
	log := b.log(id, "stdout")
	for range 2 {
		b.must(b.driver.Remove(b.Context(), id))
		b.clean(id)
		if now := b.log(id, "stdout"); now != log {
			t.Errorf("the log was %q, is %q", log, now)
		}
		b.restart()
	}
	b.must(b.driver.RemoveLogs(b.Context(), id))
	if at, ok := b.kept()[id]; ok {
		t.Errorf("removed logs are listed, written at %v", at)
	}
	if r, err := b.driver.Logs(b.Context(), id, "stdout", driver.From{}); !isNotExist(err) {
		t.Errorf("removed logs: %v, %v", r, err)
	}
	b.must(b.driver.RemoveLogs(b.Context(), id))
}

// listLogs: the logs of a task are listed from its start until they are removed, for an
// agent that knows nothing of it, too.
func listLogs(t *testing.T, b *bench) {
	begin := time.Now().Add(-time.Second) // file systems round
	id, runs := b.start(b.Work(0, time.Millisecond)), b.start(b.Work(0, 0))
	b.ended(id)
	b.must(b.driver.Remove(b.Context(), id))
	b.restart()
	for _, id := range []string{id, runs} {
		if at, ok := b.kept()[id]; !ok || at.Before(begin) || at.After(time.Now().Add(time.Second)) {
			t.Errorf("logs of %s: listed %v, written at %v", id, ok, at)
		}
	}
	if b.lacks(Processes) == Always {
		said := b.script("echo 12345678")
		b.ended(said)
		if n, err := b.driver.LogBytes(b.Context(), said); n < 9 || n > 1<<10 || err != nil {
			t.Errorf("a log of nine bytes takes %d, %v", n, err)
		}
	}
	b.must(b.driver.RemoveLogs(b.Context(), id))
	b.restart()
	if n, err := b.driver.LogBytes(b.Context(), id); n != 0 || err != nil {
		t.Errorf("removed logs take %d bytes, %v", n, err)
	}
	if at, ok := b.kept()[id]; ok {
		t.Errorf("removed logs are listed, written at %v", at)
	}
}

func adoptAndEnd(t *testing.T, b *bench) {
	id := b.start(b.Work(0, 0))
	before := b.observe(id)
	b.restart()
	if after := b.observe(id); after != before || after.State != task.Running {
		t.Errorf("was %+v, is %+v", before, after)
	}
	b.must(b.driver.Signal(b.Context(), id, syscall.SIGTERM))
	b.expectSignal(b.ended(id), int(syscall.SIGTERM))
	b.must(b.driver.Remove(b.Context(), id))
	b.clean(id)
}

func adoptAndLearnExit(t *testing.T, b *bench) {
	id := b.start(b.Work(42, 500*time.Millisecond))
	before := b.observe(id)
	b.restart()
	end := b.ended(id)
	b.expectExit(end, 42)
	if end.Pid != before.Pid || !end.Started.Equal(before.Started) {
		t.Errorf("was %+v, ended as %+v", before, end)
	}
}
