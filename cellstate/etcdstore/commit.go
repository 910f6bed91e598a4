package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/mem"

	"github.com/ohmcell/ohm/cellstate"
)

// atOnce is how many requests of one Commit are under way at once; the other lanes are
// left to other commits.
const atOnce = laneCount / 2

// Commit cuts the writes into requests that fit the server's limits.
func (s *Store) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	sent, err := s.condense(ctx, writes)
	if err != nil {
		return cellstate.Outcome{}, err
	}
	out, err := s.commit(ctx, sent.writes)
	return sent.outcome(out, len(writes)), err
}

func (s *Store) commit(ctx context.Context, writes []cellstate.Write) (cellstate.Outcome, error) {
	out := cellstate.Outcome{Applied: make([]cellstate.Revision, len(writes))}
	requests, err := s.requests(writes)
	if err != nil {
		return out, err
	}
	defer func() {
		for _, r := range requests {
			r.body.Free()
		}
	}()
	fates := make([]fate, len(requests))
	if len(requests) == 1 { // where a key stands twice in it, etcd refuses it
		fates[0] = s.send(ctx, requests[0])
	} else {
		if err := distinct(writes); err != nil {
			return out, err
		}
		var sending errgroup.Group
		sending.SetLimit(atOnce)
		for i, r := range requests {
			sending.Go(func() error {
				fates[i] = s.send(ctx, r)
				return nil
			})
		}
		_ = sending.Wait()
	}
	return out, together(&out, requests, fates)
}

// together gathers the fates of a call's requests. Where one failed and another was
// applied in part, the call has an unknown outcome: other errors say that nothing was.
func together(out *cellstate.Outcome, requests []request, fates []fate) error {
	var errs []error
	some, unknown := false, false
	for i, f := range fates {
		if f.err != nil {
			unknown = unknown || errors.Is(f.err, cellstate.ErrUnknown)
			errs = append(errs, f.err)
			continue
		}
		out.Revision = max(out.Revision, f.at)
		for k, applied := range f.applied {
			if applied {
				out.Applied[requests[i].first+k], some = f.at, true
			}
		}
	}
	switch {
	case len(errs) == 0:
		return nil
	case some && !unknown:
		return fmt.Errorf("%w: a part was applied, but: %w", cellstate.ErrUnknown, errors.Join(errs...))
	}
	return errors.Join(errs...)
}

// request is what one request carries below its lane.
type request struct {
	body   mem.Buffer // the writes, as operations of the success branch
	first  int        // the first of them among the writes of the call
	shape  []int      // by operation: how many writes it holds
	proofs []key      // by write: a key that it puts
}

// requests encodes the writes and cuts them where the server's limits are reached.
func (s *Store) requests(writes []cellstate.Write) ([]request, error) {
	data := s.bodies.Get(estimate(writes))
	b := (*data)[:0]
	proofs := make([]key, len(writes))
	type cut struct{ write, at, op int }
	var cuts []cut // where each request begins
	var shape []int
	deepest := 0
	for i := 0; i < len(writes); {
		begun, n := len(b), s.joined(writes[i:])
		var path int
		var err error
		if b, path, err = s.appendWrites(b, writes[i:i+n], i, proofs[i:]); err == nil {
			err = s.fits(path, len(b)-begun)
		}
		if err != nil {
			*data = b
			s.bodies.Put(data)
			return nil, err
		}
		deepest = max(deepest, path)
		if i == 0 || 2+len(shape)-cuts[len(cuts)-1].op+deepest > s.cfg.MaxTxnOps || len(b)-cuts[len(cuts)-1].at > s.cfg.MaxRequestBytes/2 {
			cuts, deepest = append(cuts, cut{i, begun, len(shape)}), path
		}
		shape = append(shape, n)
		i += n
	}
	*data = b
	whole := mem.NewBuffer(data, &s.bodies)
	defer whole.Free()
	requests := make([]request, len(cuts))
	for i, c := range cuts {
		next := cut{len(writes), len(b), len(shape)}
		if i+1 < len(cuts) {
			next = cuts[i+1]
		}
		requests[i] = request{body: whole.Slice(c.at, next.at), first: c.write, shape: shape[c.op:next.op], proofs: proofs[c.write:next.write]}
	}
	return requests, nil
}

// fits says whether a request can hold a write.
func (s *Store) fits(path, bytes int) error {
	if most := s.cfg.MaxTxnOps - headOps; path > most {
		return fmt.Errorf("%w: one write needs %d operations, the server allows %d (etcd's --max-txn-ops less %d)", cellstate.ErrRequestLimit, path, most, headOps)
	}
	if most := s.cfg.MaxRequestBytes - headBytes; bytes > most {
		return fmt.Errorf("%w: one write has %d bytes, the server allows %d (etcd's --max-request-bytes less %d)", cellstate.ErrRequestLimit, bytes, most, headBytes)
	}
	return nil
}

// estimate is about how many bytes the writes take.
func estimate(writes []cellstate.Write) int {
	n := 0
	for i := range writes {
		n += 64 + 128*(len(writes[i].Guards)+len(writes[i].Fences)) + 512*len(writes[i].Records)
	}
	return n
}

// distinct refuses what etcd would refuse in one request: a key put twice.
func distinct(writes []cellstate.Write) error {
	keys := map[cellstate.Key]bool{}
	fences := map[string]bool{}
	for _, w := range writes {
		for _, r := range w.Records {
			if keys[r.Key] {
				return fmt.Errorf("%w: duplicate key %s in one request", cellstate.ErrRequestLimit, r.Key)
			}
			keys[r.Key] = true
		}
		for _, f := range w.Fences {
			if fences[f.Side()] {
				return fmt.Errorf("%w: duplicate fence %s in one request", cellstate.ErrRequestLimit, f.Side())
			}
			fences[f.Side()] = true
		}
	}
	return nil
}

// bodies is a pool of encoded requests, which grpc gives back when they are sent.
type bodies struct{ pool sync.Pool }

// Get returns a buffer with room for n bytes.
func (p *bodies) Get(n int) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= n {
		return b
	}
	b := make([]byte, 0, n)
	return &b
}

// Put gives a buffer back.
func (p *bodies) Put(b *[]byte) { p.pool.Put(b) }
