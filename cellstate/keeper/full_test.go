package keeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	"github.com/ohmcell/ohm/cellstate/mirror"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const smallQuota = 16 << 20

// onSmallEtcd is the store of a cell with a keeper, on an etcd of 16 MiB.
func onSmallEtcd(t *testing.T, own bool, limits Limits) *etcdstore.Store {
	t.Helper()
	server, err := embedded.Settings{QuotaBytes: smallQuota}.Start(t.Context(), t.TempDir(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	store, err := etcdstore.Open(t.Context(), etcdstore.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	m := mirror.New(store, zap.NewNop())
	cfg := Config{Store: store, Mirror: m, Server: "s", Limits: limits}
	if own {
		cfg.Carer = store
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	running.Go(func() { _ = New(cfg).Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return store
}

// TestCase95: jobs that come and go, several times what the store may hold of them and of
// its history, never fill it. What is kept of the past is told in the scale of the test.
func TestCase95(t *testing.T) {
	t.Parallel()
	store := onSmallEtcd(t, false, Limits{History: 10 * time.Second, HistoryLeast: time.Second, Compact: 200 * time.Millisecond, Sweep: time.Second})
	const jobs = 2100
	text := strings.Repeat("x", 6<<10)
	pace := time.NewTicker(4500 * time.Microsecond) // not faster than history can go in this scale
	defer pace.Stop()
	written, largest := 0, cellstate.Size{}
	for i := range jobs {
		<-pace.C
		name := celltest.Name(fmt.Sprintf("j%05d", i))
		spec := celltest.Job{Name: name.Name}.Proto()
		spec.Groups[0].Env = map[string]string{"TEXT": text}
		job := &ohmv1.Job{Spec: spec, Version: 1}
		slot := cellstate.Slot{Namespace: name.Namespace, Job: name.Name, Group: "main", Version: 1}
		ended := &ohmv1.Ended{Placement: &ohmv1.Placement{Slot: slot.Proto(), Attempt: 1}, Status: &ohmv1.Status{State: task.Succeeded, Cause: task.Exited}}
		first, err := store.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{{Key: cellstate.JobKey(name), Value: job}}})
		if err != nil {
			t.Fatalf("job %d, %d MiB written: %v", i, written>>20, err)
		}
		done := &ohmv1.Job{Spec: spec, Version: 1, Done: &ohmv1.Outcome{State: "Succeeded", Time: timestamppb.Now()}}
		_, err = store.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{{Key: slot.EndedKey(1), Value: ended}, {Key: cellstate.JobKey(name), Value: done, Read: first.Applied[0]}}})
		if err != nil {
			t.Fatalf("job %d, %d MiB written: %v", i, written>>20, err)
		}
		written += 2 * len(text)
		if i%50 == 0 {
			size, err := store.Size(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			largest.File, largest.InUse = max(largest.File, size.File), max(largest.InUse, size.InUse)
		}
	}
	left := 0
	now, err := store.Load(t.Context())
	for errors.Is(err, cellstate.ErrCompacted) { // history is so short here that a slow machine does not read all of a revision in time
		now, err = store.Load(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for j := range now.Jobs() {
		if j.Record.GetDone() == nil || len(j.Tasks) != 1 {
			t.Errorf("job %s is left in part", j.Name)
		}
		left++
	}
	status, err := store.Status(t.Context())
	if err != nil || len(status.Members[0].Alarms) > 0 {
		t.Errorf("%v, %v", status, err)
	}
	if written < smallQuota*3/2 || left == 0 || left == jobs || largest.File > smallQuota {
		t.Errorf("%d bytes written, %d jobs left", written, left)
	}
	t.Logf("%d MiB written, %d of %d jobs kept, the file at most %d KiB, in use at most %d KiB", written>>20, left, jobs, largest.File>>10, largest.InUse>>10)
}

// A store of ours whose file is mostly free is made smaller; another's is left alone.
func TestDefragments(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprintf("own=%v", own), func(t *testing.T) {
			t.Parallel()
			store := onSmallEtcd(t, own, Limits{History: time.Second, HistoryLeast: 100 * time.Millisecond, Compact: 50 * time.Millisecond, Defragment: 200 * time.Millisecond})
			value := &ohmv1.Meta{Value: strings.Repeat("x", 512<<10)}
			read := cellstate.Revision(0)
			for range 12 {
				out, err := store.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{{Key: cellstate.MetaKey("large"), Value: value, Read: read}}})
				if err != nil {
					t.Fatal(err)
				}
				read = out.Applied[0]
			}
			size := func() cellstate.Size {
				size, err := store.Size(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return size
			}
			const large = 3 << 20
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			ends := time.Now().Add(20 * time.Second)
			for size().File < large && time.Now().Before(ends) { // etcd writes it with some delay
				<-tick.C
			}
			for looks := 0; looks < 30 && time.Now().Before(ends); <-tick.C { // for longer than it takes until it would pay
				if _, err := store.Commit(t.Context(), cellstate.Write{}); err != nil { // without a write nothing becomes free
					t.Fatal(err)
				}
				if size().InUse < large/2 {
					looks++
				}
			}
			if got := size(); got.File < large != own || got.InUse > large {
				t.Errorf("after: %+v", got)
			}
		})
	}
}
