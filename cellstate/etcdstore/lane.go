package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
)

// lane is one sequence of requests of this sender; one is under way at a time. Each
// request compares the lane's key with what the one before left and puts its own number,
// so it can be applied once at most, and the key says afterwards whether it was (L6).
type lane struct {
	key    string
	seq    int64 // of the last request that is known to be applied
	mod    int64 // the key's mod revision then; 0: it does not exist
	unread bool  // seq and mod are not known: read them first
}

// attempts bounds how often one request is sent again after it is known not to have
// been applied.
const attempts = 3

// send sends one request on a free lane and learns its fate also if the reply is lost.
func (s *Store) send(ctx context.Context, writes []nestedWrite) (at cellstate.Revision, applied []bool, err error) {
	var l *lane
	select {
	case l = <-s.lanes:
		defer func() { s.lanes <- l }()
	case <-ctx.Done():
		return 0, nil, fmt.Errorf("%w: %w", cellstate.ErrUnreachable, context.Cause(ctx))
	}
	incarnation, cluster := s.identity()
	for range attempts {
		if l.unread {
			if err := s.readLane(ctx, l); err != nil {
				return 0, nil, err
			}
		}
		var resp *clientv3.TxnResponse
		resp, err = s.request(ctx, l, incarnation, writes)
		switch {
		case err == nil && resp.Header.ClusterId != cluster:
			return 0, nil, cellstate.ErrIncarnation
		case err == nil && resp.Succeeded:
			l.seq, l.mod = l.seq+1, resp.Header.Revision
			return cellstate.Revision(resp.Header.Revision), appliedOf(resp.Responses[1:]), nil
		case err == nil:
			// Not applied: the incarnation is another one, or the lane was moved by a request
			// that had been given up.
			l.unread = true
			if !sameIncarnation(resp.Responses, incarnation) {
				return 0, nil, cellstate.ErrIncarnation
			}
			err = errors.New("the lane was moved by somebody else")
		case definite(err):
			return 0, nil, refused(err)
		default:
			at, applied, settled, resolveErr := s.resolve(ctx, l, writes)
			if resolveErr != nil {
				l.unread = true
				return 0, nil, fmt.Errorf("%w: %w", resolveErr, err)
			}
			if settled {
				return at, applied, nil
			}
		}
	}
	return 0, nil, s.unreachable(err)
}

func (s *Store) request(ctx context.Context, l *lane, incarnation string, writes []nestedWrite) (*clientv3.TxnResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	incarnationKey := s.key(cellstate.MetaKey("incarnation"))
	ops := make([]clientv3.Op, 0, len(writes)+1)
	ops = append(ops, clientv3.OpPut(l.key, strconv.FormatInt(l.seq+1, 10)))
	for _, w := range writes {
		ops = append(ops, w.op)
	}
	return s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(l.key), "=", l.mod),
			clientv3.Compare(clientv3.Value(incarnationKey), "=", incarnation)).
		Then(ops...).
		Else(clientv3.OpGet(incarnationKey)).
		Commit()
}

func appliedOf(responses []*pb.ResponseOp) []bool {
	applied := make([]bool, len(responses))
	for i, r := range responses {
		applied[i] = r.GetResponseTxn().GetSucceeded()
	}
	return applied
}

func sameIncarnation(responses []*pb.ResponseOp, want string) bool {
	kvs := responses[0].GetResponseRange().GetKvs()
	return len(kvs) == 1 && string(kvs[0].Value) == want
}

func (s *Store) readLane(ctx context.Context, l *lane) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	resp, err := s.client.Get(ctx, l.key)
	if err != nil {
		return s.unreachable(err)
	}
	l.seq, l.mod, l.unread = 0, 0, false
	if len(resp.Kvs) == 1 {
		l.mod = resp.Kvs[0].ModRevision
		if l.seq, err = strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64); err != nil {
			return fmt.Errorf("lane %s: %w", l.key, err)
		}
	}
	return nil
}

// resolve learns the fate of a request whose reply was lost. If the lane's sequence
// was reached, the request was applied at that key's mod revision, and a part of it
// committed if and only if its proof has that revision when read there. If not, the lane
// is advanced under compare, and the late request can never apply.
func (s *Store) resolve(ctx context.Context, l *lane, writes []nestedWrite) (at cellstate.Revision, applied []bool, settled bool, err error) {
	// The caller may have given up; whether the request was applied must be known all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.cfg.Timeout)
	defer cancel()
	for range attempts {
		sent := *l
		resp, err := s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(sent.key), "=", sent.mod)).
			Then(clientv3.OpPut(sent.key, strconv.FormatInt(sent.seq+1, 10))).
			Else(clientv3.OpGet(sent.key)).
			Commit()
		if err != nil {
			continue // this put is repeatable: it changes nothing but the lane, under compare
		}
		if resp.Succeeded {
			l.seq, l.mod = sent.seq+1, resp.Header.Revision
			return 0, nil, false, nil
		}
		kvs := resp.Responses[0].GetResponseRange().GetKvs()
		if len(kvs) != 1 {
			return 0, nil, false, cellstate.ErrUnknown
		}
		rev := kvs[0].ModRevision
		applied, err := s.proofsAt(ctx, writes, rev)
		if err != nil {
			return 0, nil, false, err
		}
		l.seq, l.mod = sent.seq+1, rev
		return cellstate.Revision(rev), applied, true, nil
	}
	return 0, nil, false, cellstate.ErrUnknown
}

// proofsAt reads which writes were applied at a revision.
func (s *Store) proofsAt(ctx context.Context, writes []nestedWrite, rev int64) ([]bool, error) {
	applied := make([]bool, len(writes))
	for i, w := range writes {
		now, err := s.client.Get(ctx, w.proof.key, clientv3.WithRev(rev))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", cellstate.ErrUnknown, err) // compacted, or away again
		}
		if !w.proof.gone {
			applied[i] = len(now.Kvs) == 1 && now.Kvs[0].ModRevision == rev
			continue
		}
		before, err := s.client.Get(ctx, w.proof.key, clientv3.WithRev(rev-1))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", cellstate.ErrUnknown, err)
		}
		applied[i] = len(before.Kvs) == 1 && len(now.Kvs) == 0
	}
	return applied, nil
}

// definite says whether the server refused the request, so that nothing was applied.
func definite(err error) bool {
	for _, known := range []error{
		rpctypes.ErrTooManyOps, rpctypes.ErrDuplicateKey, rpctypes.ErrRequestTooLarge, rpctypes.ErrNoSpace,
		rpctypes.ErrLeaseNotFound, rpctypes.ErrEmptyKey, rpctypes.ErrTooManyRequests,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return status.Code(err) == codes.InvalidArgument
}

func refused(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: the lease of a record has ended: %w", cellstate.ErrNotFound, err)
	case errors.Is(err, rpctypes.ErrNoSpace), errors.Is(err, rpctypes.ErrTooManyRequests):
		return fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", cellstate.ErrRequestLimit, err)
}
