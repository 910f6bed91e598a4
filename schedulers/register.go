package schedulers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

var errUnregistered = errors.New("the registration is gone")

// stayRegistered keeps this instance registered until ctx ends, and takes the
// registration back then. A registration of the same name that a dead process has left is
// taken over at once; nobody waits for its lease.
func (r *Runner) stayRegistered(ctx context.Context) error {
	for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, r.Times.RetryMost) {
		since := r.Clock()
		if err := r.registered(ctx); err != nil && ctx.Err() == nil {
			r.noAnswer("registration", err)
		}
		if r.Clock().Sub(since) > r.Times.Lease {
			wait = 50 * time.Millisecond
		}
		sleep(ctx, wait)
	}
	return nil
}

// registered registers under a lease of its own and returns once that is lost or ctx ends.
func (r *Runner) registered(ctx context.Context) error {
	lease, err := r.Store.Grant(ctx, r.Times.Lease)
	if err != nil {
		return err
	}
	defer r.unregister(ctx, lease)
	at, err := r.register(ctx, lease)
	if err != nil {
		return err
	}
	r.Log.Info("registered", zap.Int64("revision", int64(at)))
	g, inner := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := r.Store.KeepAlive(inner, lease); err != nil {
			return err
		}
		return inner.Err() // it ends with nil only when ctx does; then the other must end, too
	})
	g.Go(func() error {
		for inner.Err() == nil {
			if err := r.check(inner, at); err != nil {
				return err
			}
			sleep(inner, r.Times.Lease/3)
		}
		return nil
	})
	return g.Wait()
}

// unregister takes the registration back, also when ctx has ended: nobody should wait
// for a dead lease. If the scheduler ends in good order it notes when.
func (r *Runner) unregister(ctx context.Context, lease cellstate.Lease) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Times.RetryMost)
	defer cancel()
	if s, _ := r.Cell.Watch(); ctx.Err() != nil && s != nil {
		if err := r.noteSeen(last, s); err != nil {
			r.Log.Debug("noting the end", zap.Error(err))
		}
	}
	if err := r.Store.Revoke(last, lease); err != nil {
		r.Log.Debug("revoking the registration", zap.Error(err))
	}
}

// register writes the durable record, once, and the leased one, over whatever a
// process of the same name has left there.
func (r *Runner) register(ctx context.Context, lease cellstate.Lease) (cellstate.Revision, error) {
	var least cellstate.Revision
	for {
		s, err := r.Cell.WaitSnapshot(ctx, least)
		if err != nil {
			return 0, err
		}
		now := timestamppb.New(r.Clock())
		instance := cellstate.Write{Records: []cellstate.Record{{
			Key: cellstate.InstanceKey(r.Name, r.Instance), Read: instanceRevision(s, r.Name, r.Instance), Lease: lease,
			Value: &ohmv1.SchedulerInstance{Scheduler: r.Name, Instance: r.Instance, Policy: r.Policy, Version: r.Version, Since: now},
		}}}
		writes := []cellstate.Write{instance}
		if row := s.Scheduler(r.Name); row == nil || row.Record == nil {
			writes = append(writes, cellstate.Write{Records: []cellstate.Record{{
				Key:   cellstate.SchedulerKey(r.Name),
				Value: &ohmv1.Scheduler{Name: r.Name, Policy: r.Policy, BuiltIn: r.BuiltIn, Created: now},
			}}})
		}
		out, err := r.Store.Commit(ctx, writes...)
		if err != nil {
			return 0, err
		}
		if out.Applied[0] != 0 {
			return out.Applied[0], nil
		}
		least = max(out.Revision, least+1) // somebody changed it meanwhile
	}
}

func instanceRevision(s *cellstate.Snapshot, name, instance string) cellstate.Revision {
	if row := s.Scheduler(name); row != nil {
		for _, i := range row.Instances {
			if i.GetInstance() == instance {
				return i.Revision
			}
		}
	}
	return 0
}

// check notes durably, now and then, that the scheduler is there, and reports a
// registration that has gone although its lease lives: another process with this name took
// it over and has ended.
func (r *Runner) check(ctx context.Context, at cellstate.Revision) error {
	s, err := r.Cell.WaitSnapshot(ctx, at)
	if err != nil {
		return err
	}
	switch rev := instanceRevision(s, r.Name, r.Instance); {
	case rev == 0:
		return errUnregistered
	case rev != at:
		r.Log.Warn("another process runs under the name of this instance")
	}
	seen, _ := s.Meta(reconcile.SeenMeta(r.Name))
	if r.Clock().Sub(seen.GetTime().AsTime()) < r.Times.Seen {
		return nil
	}
	if err := r.noteSeen(ctx, s); err != nil { // the next check tries again; the lease decides on the registration
		r.noAnswer("noting that the scheduler is there", err)
	}
	return nil
}

// noteSeen notes durably that the scheduler was there just now. Another instance may do
// the same at the same time, which is as good.
func (r *Runner) noteSeen(ctx context.Context, s *cellstate.Snapshot) error {
	meta := reconcile.SeenMeta(r.Name)
	_, read := s.Meta(meta)
	_, err := r.Store.Commit(ctx, cellstate.Write{Records: []cellstate.Record{{
		Key: cellstate.MetaKey(meta), Read: read, Value: &ohmv1.Meta{Value: r.Instance, Time: timestamppb.New(r.Clock())},
	}}})
	return err
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// failed counts and logs that the store did not answer, and pauses, longer each time in a row.
func (r *Runner) failed(ctx context.Context, doing string, err error) {
	r.noAnswer(doing, err)
	r.errorPause = min(max(2*r.errorPause, 50*time.Millisecond), r.Times.RetryMost)
	sleep(ctx, r.errorPause)
}

// noAnswer counts and logs an answer that the store did not give.
func (r *Runner) noAnswer(doing string, err error) {
	r.stats.add(func(s *Stats) { s.Errors++ })
	r.Log.Warn(fmt.Sprintf("%s: the store did not answer, trying again", doing), zap.Error(err))
}
