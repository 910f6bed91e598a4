package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
)

// lane is one sequence of requests of this sender; one is under way at a time. Each
// request compares the lane's key with what the one before left and puts its own number,
// so it can be applied once at most, and the key says afterwards whether it was (L6).
type lane struct {
	key    key
	seq    int64 // of the last request that is known to be applied, or never will be
	mod    int64 // the key's mod revision then; 0: it does not exist
	unread bool  // seq and mod are not known: read them first
}

// void marks a number in a lane whose request was never applied and never will be.
const void = " void"

func (l *lane) next() string { return strconv.FormatInt(l.seq+1, 10) }

// attempts bounds how often one request is sent again after it is known not to have
// been applied.
const attempts = 3

// fate is what became of a request. An error other than ErrUnknown says that it was not
// and will not be applied.
type fate struct {
	at      cellstate.Revision
	applied []bool // by write
	err     error
}

// send sends one request on a free lane and learns its fate also if the reply is lost.
func (s *Store) send(ctx context.Context, r request) fate {
	var l *lane
	select {
	case l = <-s.lanes:
		defer func() { s.lanes <- l }()
	case <-ctx.Done():
		return fate{err: fmt.Errorf("%w: %w", cellstate.ErrUnreachable, context.Cause(ctx))}
	}
	incarnation, cluster := s.identity()
	var last error
	lost := false // the reply of an attempt
	for range attempts {
		if l.unread {
			if err := s.readLane(ctx, l); err != nil {
				return fate{err: err}
			}
		}
		reply := txnReply{shape: append([]int{1}, r.shape...)} // the lane first
		sent, err := s.request(ctx, l, incarnation, r, &reply)
		switch {
		case err == nil && reply.succeeded:
			if reply.cluster != cluster || len(reply.nested) != 1+len(r.proofs) {
				l.unread = true
				return fate{err: fmt.Errorf("%w: %w", cellstate.ErrUnknown, cellstate.ErrIncarnation)}
			}
			l.seq, l.mod = l.seq+1, int64(reply.revision)
			return fate{at: reply.revision, applied: reply.nested[1:]}
		case err == nil:
			// Not applied: the incarnation is another one, or the lane was moved by a request
			// that had been given up.
			l.unread = true
			switch another := reply.cluster != cluster || !reply.found || reply.value != incarnation; {
			case another && lost: // what the lane says is of the restored store; before, it may have been applied and seen
				return fate{err: fmt.Errorf("%w: %w", cellstate.ErrUnknown, cellstate.ErrIncarnation)}
			case another:
				return fate{err: cellstate.ErrIncarnation}
			}
			last = errors.New("the lane was moved by somebody else")
		case !sent:
			return fate{err: s.failed(err)}
		case definite(err):
			return fate{err: refused(err)}
		default:
			lost = true
			f, settled := s.resolve(ctx, l, r, incarnation, cluster)
			if f.err != nil {
				l.unread = true
				return fate{err: fmt.Errorf("%w: %w", f.err, err)}
			}
			if settled {
				return f
			}
			last = err
			if ctx.Err() != nil {
				return fate{err: s.failed(err)}
			}
		}
	}
	return fate{err: s.failed(last)}
}

// request makes one attempt: if the lane and the incarnation are as expected, the lane
// moves on and the writes are judged; else the incarnation is read.
func (s *Store) request(ctx context.Context, l *lane, incarnation string, r request, reply *txnReply) (sent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	sent, err = s.wire.txn(ctx, mem.BufferSlice{mem.SliceBuffer(s.head(l, incarnation)), r.body}, reply)
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = fmt.Errorf("no answer within %s: %w", s.cfg.Timeout, err)
	}
	return sent, err
}

// head is what stands in a request before its writes.
func (s *Store) head(l *lane, incarnation string) []byte {
	k := s.key(cellstate.MetaKey("incarnation"))
	b := compare{key: l.key, target: modTarget, revision: l.mod}.append(make([]byte, 0, 512))
	b = appendCompareValue(b, k, incarnation)
	b = appendPutString(b, txnSuccess, l.key, l.next())
	return appendGet(b, txnFailure, k)
}

func (s *Store) readLane(ctx context.Context, l *lane) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	resp, err := s.client.Get(ctx, l.key.String())
	if err != nil {
		return s.failed(err)
	}
	l.seq, l.mod, l.unread = 0, 0, false
	if len(resp.Kvs) == 1 {
		l.mod = resp.Kvs[0].ModRevision
		if l.seq, err = strconv.ParseInt(strings.TrimSuffix(string(resp.Kvs[0].Value), void), 10, 64); err != nil {
			l.unread = true
			return fmt.Errorf("lane %s: %w", l.key, err)
		}
	}
	return nil
}

// resolve learns the fate of a request whose reply was lost. If the lane's sequence
// was reached, the request was applied at that key's mod revision, and a part of it
// committed if and only if its proof has that revision when read there. If not, the lane
// is advanced under compare, and the late request can never apply: it is not settled. Of
// another store than that of the request, as a restored one is, the lane tells nothing.
//
// The caller may have given up; whether the request was applied must be known all the
// same, but he waits no longer than one timeout for it.
func (s *Store) resolve(ctx context.Context, l *lane, r request, incarnation string, cluster uint64) (f fate, settled bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Timeout)
	defer cancel()
	number := l.next()
	ask := compare{key: l.key, target: modTarget, revision: l.mod}.append(nil)
	ask = appendCompareValue(ask, s.key(cellstate.MetaKey("incarnation")), incarnation)
	ask = appendPutString(ask, txnSuccess, l.key, number+void)
	ask = appendGet(ask, txnFailure, l.key)
	var reply txnReply
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		// This can be repeated: it changes nothing but the lane, once, under compare.
		_, err := s.wire.txn(ctx, mem.BufferSlice{mem.SliceBuffer(ask)}, &reply, grpc.WaitForReady(true))
		if err == nil {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fate{err: cellstate.ErrUnknown}, false
		}
	}
	switch {
	case reply.cluster != cluster:
		return fate{err: fmt.Errorf("%w: %w", cellstate.ErrUnknown, cellstate.ErrIncarnation)}, false
	case reply.succeeded:
		l.seq, l.mod = l.seq+1, int64(reply.revision)
		return fate{}, false
	case reply.found && reply.value == number+void: // by an earlier try, whose reply was lost, too
		l.seq, l.mod = l.seq+1, reply.mod
		return fate{}, false
	case !reply.found || reply.value != number:
		return fate{err: s.another(ctx, incarnation)}, false
	}
	applied, err := s.proofsAt(ctx, r.proofs, reply.mod)
	if err != nil {
		return fate{err: err}, false
	}
	l.seq, l.mod = l.seq+1, reply.mod
	return fate{at: cellstate.Revision(reply.mod), applied: applied}, true
}

// another is ErrUnknown, with the reason if that is a restore.
func (s *Store) another(ctx context.Context, incarnation string) error {
	resp, err := s.client.Get(ctx, s.key(cellstate.MetaKey("incarnation")).String())
	if err == nil && (len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != incarnation) {
		return fmt.Errorf("%w: %w", cellstate.ErrUnknown, cellstate.ErrIncarnation)
	}
	return cellstate.ErrUnknown
}

// proofsAt reads which writes were applied at a revision.
func (s *Store) proofsAt(ctx context.Context, proofs []key, rev int64) ([]bool, error) {
	applied := make([]bool, 0, len(proofs))
	for len(proofs) > 0 {
		n := min(len(proofs), 100, s.cfg.MaxTxnOps)
		gets := make([]clientv3.Op, n)
		for i, k := range proofs[:n] {
			gets[i] = clientv3.OpGet(k.String(), clientv3.WithRev(rev), clientv3.WithKeysOnly())
		}
		resp, err := s.client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", cellstate.ErrUnknown, err) // compacted, or away again
		}
		for _, got := range resp.Responses {
			kvs := got.GetResponseRange().GetKvs()
			applied = append(applied, len(kvs) == 1 && kvs[0].ModRevision == rev)
		}
		proofs = proofs[n:]
	}
	return applied, nil
}

// definite says whether the server refused the request, so that nothing was applied.
func definite(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.ResourceExhausted: // too large, too many, no space
		return true
	}
	return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound)
}

func refused(err error) error {
	err = rpctypes.Error(err)
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: the lease of a record has ended: %w", cellstate.ErrNotFound, err)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", cellstate.ErrNoSpace, err)
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", cellstate.ErrRequestLimit, err)
}
