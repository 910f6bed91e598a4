package etcdstore

import (
	"context"
	"errors"
	"sort"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
)

// The limits that an etcd has if nobody has told it others, and the largest that are
// looked for: more than that no request of ours needs.
const (
	presetTxnOps       = 128
	presetRequestBytes = 3 << 19
	mostTxnOps         = 8192
	mostRequestBytes   = 8 << 20
)

// What a request needs besides its writes, along the path and in bytes.
const (
	headOps   = 4
	headBytes = 2 << 10
)

// claimBytes is more than a claim takes in a request: its record and its key, with names
// of 63 characters and 16 GPUs, and the compare of its node's fence.
const claimBytes = 2 << 10

// width is how many conditions one write may have, and how many deeper transactions with
// its records: see branch.
func (s *Store) width() int { return max(4, s.cfg.MaxTxnOps-headOps-deepest) }

// Limits of one write. An atomic transaction compares the fence of each of its nodes, its
// job, its slots with one range (see condense), that no quota was created, and the shares
// of two quotas; a claim of an incremental one, which
// may be of a job of its own, compares a slot and a job.
func (s *Store) Limits() cellstate.Limits {
	nodes := s.width() - 5
	return cellstate.Limits{
		Nodes:  nodes,
		Claims: max(1, min((s.cfg.MaxRequestBytes-headBytes)/claimBytes, deepest*s.width()-nodes)),
		Batch:  max(1, (s.cfg.MaxTxnOps-8)/2),
	}
}

// Config is what the store goes by, with the limits that Open has found.
func (s *Store) Config() Config { return s.cfg }

// learnLimits asks the server for the limits that the configuration does not tell. etcd
// has no word for them, but refuses what is beyond them; what is asked here writes nothing.
func (s *Store) learnLimits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if s.cfg.MaxTxnOps == 0 {
		ops, err := largest(presetTxnOps, mostTxnOps, 1, func(n int) (bool, error) { return s.takesOps(ctx, n) })
		if err != nil {
			return err
		}
		s.cfg.MaxTxnOps = ops
	}
	if s.cfg.MaxRequestBytes == 0 {
		bytes, err := largest(presetRequestBytes, mostRequestBytes, 64<<10, func(n int) (bool, error) { return s.takesBytes(ctx, n) })
		if err != nil {
			return err
		}
		s.cfg.MaxRequestBytes = bytes
	}
	s.cfg.MaxRequestBytes = min(s.cfg.MaxRequestBytes, mostSent, mostBytes)
	return nil
}

// largest finds the largest number up to most, in steps, that is taken; the preset one if
// none above it is. Numbers below one that is taken are, too.
func largest(preset, most, step int, taken func(int) (bool, error)) (int, error) {
	if all, err := taken(most); all || err != nil {
		return most, err
	}
	var failed error
	refused := sort.Search((most-preset)/step, func(i int) bool {
		ok, err := taken(preset + (i+1)*step)
		failed = errors.Join(failed, err)
		return !ok
	})
	return preset + refused*step, failed
}

// takesOps says whether the server takes a transaction of n operations: of conditions
// only, with nothing to do.
func (s *Store) takesOps(ctx context.Context, n int) (bool, error) {
	condition := clientv3.Compare(clientv3.CreateRevision(s.key(cellstate.MetaKey("format")).String()), "=", 0)
	conditions := make([]clientv3.Cmp, n)
	for i := range conditions {
		conditions[i] = condition
	}
	return s.takes(ctx, func() error {
		_, err := s.client.Txn(ctx).If(conditions...).Commit()
		return err
	}, func(err error) bool { return errors.Is(err, rpctypes.ErrTooManyOps) })
}

// overhead is by how much a message may be longer than etcd's limit of a request.
const overhead = 512 << 10

// takesBytes says whether the server takes requests of n bytes. A request that only reads
// is not held against that limit, but its message is against one that goes with it.
func (s *Store) takesBytes(ctx context.Context, n int) (bool, error) {
	const frame = 64 // at least what the message has around the key
	return s.takes(ctx, func() error {
		_, err := s.client.Get(ctx, strings.Repeat("-", n+overhead-frame), clientv3.WithCountOnly())
		return err
	}, func(err error) bool {
		return status.Code(err) == codes.ResourceExhausted || errors.Is(err, rpctypes.ErrRequestTooLarge)
	})
}

// probeAgain is how long a probe waits that something has happened to.
const probeAgain = 20 * time.Millisecond

// takes says whether the server takes a probe. One that is not answered, or not by a
// leader, says nothing of the server's limits; it is sent again, as it changes nothing.
func (s *Store) takes(ctx context.Context, probe func() error, refused func(error) bool) (bool, error) {
	for {
		err := probe()
		switch {
		case err == nil:
			return true, nil
		case refused(err):
			return false, nil
		case !mayPass(err):
			return false, s.failed(err)
		}
		select {
		case <-time.After(probeAgain):
		case <-ctx.Done():
			return false, s.failed(err)
		}
	}
}

// mayPass says whether a request met what may be over when it comes again.
func mayPass(err error) bool {
	code := status.Code(err)
	if known := (rpctypes.EtcdError{}); errors.As(err, &known) {
		code = known.Code()
	}
	return code == codes.Unavailable || errors.Is(err, rpctypes.ErrTooManyRequests)
}
