package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore"
	"github.com/ohmcell/ohm/cellstate/mirror"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// racer is the least that can commit a transaction: a name, the store and a mirror of it.
type racer struct {
	name   string
	store  *etcdstore.Store
	mirror *mirror.Mirror
	leave  func()
}

// join starts a mirror of the cell and registers the name, so that jobs may give it.
func join(ctx context.Context, conn grpc.ClientConnInterface, name string) (*racer, error) {
	store, err := etcdstore.Discover(ctx, conn, etcdstore.Config{Sender: name})
	if err != nil {
		return nil, err
	}
	r := &racer{name: name, store: store, mirror: mirror.New(store, zap.NewNop())}
	following, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.mirror.Run(following) // it returns nil, when it is cancelled
	}()
	r.leave = func() {
		cancel()
		<-ended
		store.Close()
	}
	snapshot, err := r.mirror.WaitSnapshot(ctx, 1)
	if err == nil && snapshot.Scheduler(name) == nil {
		_, err = store.Commit(ctx, cellstate.Write{Records: []cellstate.Record{{
			Key:   cellstate.SchedulerKey(name),
			Value: &ohmv1.Scheduler{Name: name, Policy: "race", Created: timestamppb.Now()},
		}}})
	}
	if err != nil {
		r.leave()
		return nil, err
	}
	return r, nil
}

// room is the live node with the most free CPU, and a little more than half of that.
func (r *racer) room(ctx context.Context) (node cellstate.NodeName, milli int64, err error) {
	snapshot, err := r.mirror.WaitSnapshot(ctx, 1)
	if err != nil {
		return "", 0, err
	}
	var most int64
	for n := range snapshot.Nodes() {
		_, hollow := n.Label("hollow")
		free := n.Facts.GetCapacity().GetCpuMilli() - n.Used().CPUMilli
		if n.Alive != nil && !hollow && free > most {
			node, most = n.Name, free
		}
	}
	if node == "" {
		return "", 0, errors.New("no node has free CPU")
	}
	return node, most/2 + 1, nil
}

// job is a job of one task that names this racer.
func (r *racer) job(cpu int64) *ohmv1.JobSpec {
	return &ohmv1.JobSpec{Namespace: "default", Name: r.name, Kind: "batch", Scheduler: r.name, Groups: []*ohmv1.Group{{
		Name: "main", Count: 1, Command: []string{"sleep", "600"},
		Resources: &ohmv1.Resources{CpuMilli: cpu, MemoryBytes: 16 << 20},
	}}}
}

// claim wants the job's task on the node, as decided on the snapshot.
func (r *racer) claim(s *cellstate.Snapshot, node cellstate.NodeName) *cellstate.Txn {
	job := s.Job(cellstate.JobName{Namespace: "default", Name: r.name})
	slot := cellstate.Slot{Namespace: "default", Job: r.name, Group: "main", Version: job.VersionOf("main")}
	return &cellstate.Txn{
		ID: cellstate.TxnID(ulid.Make().String()), Scheduler: r.name, Instance: "one",
		Mode: cellstate.Incremental, Snapshot: s.Revision(),
		Claims: []cellstate.Claim{{
			Slot: slot, Attempt: job.Task(slot).Attempts() + 1, Node: node,
			Resources:  job.Group("main").GetResources(),
			Precedence: int(job.Record.GetSpec().GetPrecedence()), JobRevision: job.Revision,
		}},
	}
}

func (r *racer) commit(ctx context.Context, txn *cellstate.Txn) (cellstate.Result, error) {
	results, err := r.mirror.Commit(ctx, txn)
	if err != nil {
		return cellstate.Result{}, fmt.Errorf("%s: %w", r.name, err)
	}
	return results[0], nil
}

// journal writes a lost claim where `ohm conflict list` reads, for an hour.
func (r *racer) journal(ctx context.Context, txn *cellstate.Txn, c *cellstate.Conflict) error {
	lease, err := r.store.Grant(ctx, time.Hour)
	if err != nil {
		return err
	}
	entry := schedulers.ConflictRecord(ulid.Make().String(), time.Now(), txn, c)
	_, err = r.store.Commit(ctx, cellstate.Write{Records: []cellstate.Record{
		{Key: cellstate.ConflictKey(r.name, entry.GetId()), Value: entry, Lease: lease},
	}})
	return err
}
