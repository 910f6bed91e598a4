package server

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/jobspec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// The states of a scheduler.
const (
	schedulerLive    = "Live"    // an instance is registered
	schedulerNotSeen = "NotSeen" // none is
)

// cell is the Cell service.
type cell struct {
	ohmv1.UnimplementedCellServer
	*Server
}

func (s *cell) Info(ctx context.Context, _ *ohmv1.InfoRequest) (*ohmv1.InfoResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	size := s.storeSize(ctx)
	return &ohmv1.InfoResponse{
		StoreFileBytes: size.File, StoreQuotaBytes: size.Quota,
		Cell: s.cfg.Cell, Version: s.cfg.Version, Revision: int64(snapshot.Revision()), Server: s.cfg.Name,
		Etcd: s.cfg.Etcd.Endpoints, EtcdMaxTxnOps: int32(s.cfg.Etcd.MaxTxnOps), EtcdMaxRequestBytes: int32(s.cfg.Etcd.MaxRequestBytes),
	}, nil
}

func (s *cell) ListSchedulers(ctx context.Context, _ *ohmv1.ListSchedulersRequest) (*ohmv1.ListSchedulersResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	resp, now := &ohmv1.ListSchedulersResponse{}, time.Now()
	for row := range snapshot.Schedulers() {
		resp.Schedulers = append(resp.Schedulers, schedulerView(snapshot, row, now))
	}
	return resp, nil
}

func schedulerState(row *cellstate.Scheduler) string {
	if row == nil || len(row.Instances) == 0 {
		return schedulerNotSeen
	}
	return schedulerLive
}

// schedulerView counts what waits from the cell state, as everything that is shown is.
func schedulerView(s *cellstate.Snapshot, row *cellstate.Scheduler, now time.Time) *ohmv1.SchedulerView {
	v := &ohmv1.SchedulerView{
		Scheduler: row.Name, Policy: row.Record.GetPolicy(), State: schedulerState(row),
		Since: row.Record.GetCreated(), BuiltIn: row.Record.GetBuiltIn(),
	}
	for i, instance := range row.Instances {
		v.Instances = append(v.Instances, instance.GetInstance())
		if i == 0 || instance.GetSince().AsTime().Before(v.Since.AsTime()) {
			v.Since = instance.GetSince()
		}
		if v.Policy == "" {
			v.Policy = instance.GetPolicy()
		}
	}
	if len(row.Instances) == 0 {
		if seen := reconcile.LastSeen(s, row.Name); !seen.IsZero() {
			v.Since = timestamppb.New(seen)
		}
	}
	for j := range s.JobsOf(row.Name) {
		v.Jobs++
		for _, c := range reconcile.Job(s, j, now).Counts {
			v.Waiting += c.GetWaiting()
		}
	}
	return v
}

// registerBuiltIns makes sure that the built-in schedulers have their durable records,
// so that jobs may name them before any of them has run.
func (s *Server) registerBuiltIns(ctx context.Context) error {
	for ctx.Err() == nil {
		_, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
			for _, kind := range jobspec.Kinds() {
				if row := at.Scheduler(kind); row != nil && row.Record != nil {
					continue
				}
				w.Records = append(w.Records, cellstate.Record{Key: cellstate.SchedulerKey(kind), Value: &ohmv1.Scheduler{
					Name: kind, Policy: kind, BuiltIn: true, Created: timestamppb.Now(),
				}})
			}
			return w, nil
		})
		if err == nil {
			return nil
		}
		_ = pause(ctx, retryStore)
	}
	return nil
}
