package etcdstore

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ohmcell/ohm/cellstate"
)

// Commit cuts the writes into requests that fit the server's limits and sends one
// after the other.
func (s *Store) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	out := cellstate.Outcome{Applied: make([]cellstate.Revision, len(writes))}
	if err := distinct(writes); err != nil {
		return out, err
	}
	nested := make([]nestedWrite, len(writes))
	for i, w := range writes {
		var err error
		if nested[i], err = s.nest(w); err != nil {
			return out, err
		}
	}
	for from := 0; from < len(nested); {
		to := s.cut(nested, from)
		at, applied, err := s.send(ctx, nested[from:to])
		if err != nil {
			return out, err
		}
		out.Revision = max(out.Revision, at)
		for i, ok := range applied {
			if ok {
				out.Applied[from+i] = at
			}
		}
		from = to
	}
	return out, nil
}

// nestedWrite is one write as a nested transaction, with what tells afterwards whether
// it was applied.
type nestedWrite struct {
	op    clientv3.Op
	ops   int // the larger of its compares and operations
	bytes int // about
	proof proof
}

// proof is a key that shows whether a write was applied at a revision: a key that it
// puts has that mod revision, or a key that it deletes is gone although it stood before.
type proof struct {
	key  string
	gone bool
}

// nest builds the nested transaction of a write: compares first, then fences and records.
func (s *Store) nest(w cellstate.Write) (nestedWrite, error) {
	var n nestedWrite
	var cmps []clientv3.Cmp
	var ops []clientv3.Op
	for _, g := range w.Guards {
		cmps = append(cmps, s.compare(g))
		if g.Delete {
			ops = append(ops, clientv3.OpDelete(s.key(g.Key), clientv3.WithRange(s.key(g.End))))
		}
	}
	for _, f := range w.Fences {
		key := s.fenceKey(f.Node)
		cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", int64(f.Compared)))
		ops = append(ops, clientv3.OpPut(key, ""))
		n.proof = proof{key: key}
		n.bytes += 2 * len(key)
	}
	for _, r := range w.Records {
		key := s.key(r.Key)
		if r.Read != cellstate.ReadGuarded {
			cmps = append(cmps, clientv3.Compare(clientv3.ModRevision(key), "=", int64(r.Read)))
		}
		if r.Value == nil {
			ops = append(ops, clientv3.OpDelete(key))
			if n.proof.key == "" {
				n.proof = proof{key: key, gone: true}
			}
			continue
		}
		raw, err := marshal(r.Value)
		if err != nil {
			return n, fmt.Errorf("record %s: %w", r.Key, err)
		}
		ops = append(ops, clientv3.OpPut(key, string(raw), clientv3.WithLease(clientv3.LeaseID(r.Lease))))
		if n.proof.key == "" || n.proof.gone {
			n.proof = proof{key: key}
		}
		n.bytes += 2*len(key) + len(raw)
	}
	for _, g := range w.Guards {
		n.bytes += 2 * len(s.prefix+string(g.Key))
	}
	// Operations along a path add up: what exceeds the compares goes one level deeper, in
	// transactions without conditions, which cost the path no more than their own length.
	if most := max(len(cmps), 16); len(ops) > most {
		var deeper []clientv3.Op
		for len(ops) > 0 {
			k := min(16, len(ops))
			deeper = append(deeper, clientv3.OpTxn(nil, ops[:k], nil))
			ops = ops[k:]
		}
		ops = deeper
		n.ops = 16
	}
	n.ops += max(len(cmps), len(ops))
	n.op = clientv3.OpTxn(cmps, ops, nil)
	if most := s.cfg.MaxTxnOps - 4; n.ops > most {
		return n, fmt.Errorf("%w: one write needs %d operations, the server allows %d", cellstate.ErrRequestLimit, n.ops, most)
	}
	if n.bytes > s.cfg.MaxRequestBytes {
		return n, fmt.Errorf("%w: one write has about %d bytes, the server allows %d", cellstate.ErrRequestLimit, n.bytes, s.cfg.MaxRequestBytes)
	}
	return n, nil
}

func (s *Store) compare(g cellstate.Guard) clientv3.Cmp {
	var c clientv3.Cmp
	switch key := s.key(g.Key); {
	case g.NotNewer:
		c = clientv3.Compare(clientv3.ModRevision(key), "<", int64(g.Revision)+1)
	case g.Revision == 0:
		c = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	default:
		c = clientv3.Compare(clientv3.ModRevision(key), "=", int64(g.Revision))
	}
	if g.End != "" {
		c = c.WithRange(s.key(g.End))
	}
	return c
}

// cut returns the end of the longest run of writes from from on that one request holds.
func (s *Store) cut(nested []nestedWrite, from int) int {
	deepest, bytes := 0, 0
	for i := from; i < len(nested); i++ {
		deepest, bytes = max(deepest, nested[i].ops), bytes+nested[i].bytes
		if i > from && (2+i-from+deepest > s.cfg.MaxTxnOps || bytes > s.cfg.MaxRequestBytes/2) {
			return i
		}
	}
	return len(nested)
}

// distinct refuses what etcd would refuse: a key put twice in one request.
func distinct(writes []cellstate.Write) error {
	keys := map[cellstate.Key]bool{}
	fences := map[cellstate.NodeName]bool{}
	for _, w := range writes {
		for _, r := range w.Records {
			if keys[r.Key] {
				return fmt.Errorf("%w: duplicate key %s in one request", cellstate.ErrRequestLimit, r.Key)
			}
			keys[r.Key] = true
		}
		for _, f := range w.Fences {
			if fences[f.Node] {
				return fmt.Errorf("%w: duplicate fence of node %s in one request", cellstate.ErrRequestLimit, f.Node)
			}
			fences[f.Node] = true
		}
	}
	return nil
}
