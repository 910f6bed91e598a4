package etcdstore

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
)

// key is an etcd key in two parts, so that it need not be joined before it is appended.
type key struct{ prefix, rest string }

func (k key) len() int { return len(k.prefix) + len(k.rest) }

func (k key) String() string { return k.prefix + k.rest }

func (k key) append(b []byte, tag uint64) []byte {
	b = protowire.AppendVarint(b, tag)
	b = protowire.AppendVarint(b, uint64(k.len()))
	b = append(b, k.prefix...)
	return append(b, k.rest...)
}

// size of the key as a field whose tag takes one byte.
func (k key) size() int { return 1 + protowire.SizeBytes(k.len()) }

// The results and targets of a compare (etcdserverpb.Compare).
const (
	equal = 0
	less  = 2

	createTarget = 1
	modTarget    = 2
	valueTarget  = 3
)

// compare is a condition of a transaction: etcd's revision of a key, or of all keys of a
// range, is equal to or less than a number.
type compare struct {
	key, end key // end: empty for one key
	result   uint64
	target   uint64 // createTarget or modTarget
	revision int64
}

func (c compare) append(b []byte) []byte {
	size := 2 + c.key.size() + 1 + protowire.SizeVarint(uint64(c.revision))
	if c.result != equal {
		size += 2
	}
	if c.end.rest != "" {
		size += 2 + protowire.SizeBytes(c.end.len())
	}
	b = protowire.AppendVarint(b, txnCompare)
	b = protowire.AppendVarint(b, uint64(size))
	if c.result != equal {
		b = appendInt(b, compareResult, int64(c.result))
	}
	b = appendInt(b, compareTarget, int64(c.target))
	b = c.key.append(b, compareKey)
	if c.target == createTarget {
		b = appendInt(b, compareCreate, c.revision)
	} else {
		b = appendInt(b, compareMod, c.revision)
	}
	if c.end.rest != "" {
		b = c.end.append(b, compareRangeEnd)
	}
	return b
}

// appendCompareValue appends the condition that a key has a value.
func appendCompareValue(b []byte, k key, value string) []byte {
	b, start := begin(b, txnCompare)
	b = appendInt(b, compareTarget, valueTarget)
	b = k.append(b, compareKey)
	b = appendString(b, compareValue, value)
	end(b, start)
	return b
}

// appendPut appends a put as an operation of a branch of a transaction.
func appendPut(b []byte, branch uint64, k key, value proto.Message, lease cellstate.Lease) ([]byte, error) {
	fast, isFast := value.(interface {
		SizeVT() int
		MarshalToSizedBufferVT([]byte) (int, error)
	})
	var raw []byte
	var length int
	switch {
	case value == nil:
	case isFast:
		length = fast.SizeVT()
	default:
		var err error
		if raw, err = proto.Marshal(value); err != nil {
			return b, err
		}
		length = len(raw)
	}
	size := k.size()
	if length > 0 {
		size += 1 + protowire.SizeBytes(length)
	}
	if lease != 0 {
		size += 1 + protowire.SizeVarint(uint64(lease))
	}
	b = appendOp(b, branch, opPut, size)
	b = k.append(b, putKey)
	if length > 0 {
		b = protowire.AppendVarint(b, putValue)
		b = protowire.AppendVarint(b, uint64(length))
		if isFast {
			n := len(b)
			b = grow(b, length)
			if _, err := fast.MarshalToSizedBufferVT(b[n:]); err != nil {
				return b, err
			}
		} else {
			b = append(b, raw...)
		}
	}
	if lease != 0 {
		b = appendInt(b, putLease, int64(lease))
	}
	return b, nil
}

// appendPutString appends a put of a short text.
func appendPutString(b []byte, branch uint64, k key, value string) []byte {
	b = appendOp(b, branch, opPut, k.size()+1+protowire.SizeBytes(len(value)))
	b = k.append(b, putKey)
	return appendString(b, putValue, value)
}

// appendGet appends the read of one key.
func appendGet(b []byte, branch uint64, k key) []byte {
	b = appendOp(b, branch, opRange, k.size())
	return k.append(b, rangeKey)
}

// appendDelete appends the deletion of a key or, with an end, of a range.
func appendDelete(b []byte, branch uint64, k, until key) []byte {
	size := k.size()
	if until.rest != "" {
		size += until.size()
	}
	b = appendOp(b, branch, opDelete, size)
	b = k.append(b, deleteKey)
	if until.rest != "" {
		b = until.append(b, deleteRangeEnd)
	}
	return b
}

// appendOp appends the beginning of an operation whose request has a known size.
func appendOp(b []byte, branch, op uint64, size int) []byte {
	b = protowire.AppendVarint(b, branch)
	b = protowire.AppendVarint(b, uint64(1+protowire.SizeBytes(size)))
	b = protowire.AppendVarint(b, op)
	return protowire.AppendVarint(b, uint64(size))
}

// grow lengthens b by n bytes of any content.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		b = append(make([]byte, 0, 2*cap(b)+n), b...)
	}
	return b[:len(b)+n]
}

// appendWrite appends a write as a nested transaction: its compares, without those of the
// first guards, which stand above it, then fences and records. It returns how many operations that adds along the path (the larger of its
// compares and operations) and the key that proves it: one that it puts, and that has the
// revision at which the write was applied. A write that puts nothing is given such a key
// after its place in the call, at.
func (s *Store) appendWrite(b []byte, w *cellstate.Write, above, at int) (_ []byte, path int, proof key, err error) {
	guards := w.Guards[above:]
	deletes, puts := 0, len(w.Fences)
	for _, f := range w.Fences {
		if f.Drop {
			deletes, puts = deletes+1, puts-1
		}
	}
	compares := len(guards) + len(w.Fences)
	for _, g := range guards {
		if g.Delete {
			deletes++
		}
	}
	for _, r := range w.Records {
		if r.Read != cellstate.ReadGuarded {
			compares++
		}
		if r.Value == nil {
			deletes++
		} else {
			puts++
		}
	}
	proved := puts > 0
	if !proved {
		puts++
	}

	b, op := begin(b, txnSuccess)
	b, txn := begin(b, opTxn)
	for _, g := range guards {
		b = s.guard(g).append(b)
	}
	for i, f := range w.Fences {
		b = compare{key: s.fenceKey(&w.Fences[i]), target: modTarget, revision: int64(f.Compared)}.append(b)
	}
	for _, r := range w.Records {
		if r.Read != cellstate.ReadGuarded {
			b = compare{key: s.key(r.Key), target: modTarget, revision: int64(r.Read)}.append(b)
		}
	}
	ops := branch{total: deletes + puts, flat: max(above+compares, deepest)}
	for _, g := range guards {
		if g.Delete {
			b = appendDelete(ops.next(b), txnSuccess, s.key(g.Key), s.rangeEnd(g))
		}
	}
	for i, f := range w.Fences {
		if f.Drop {
			b = appendDelete(ops.next(b), txnSuccess, s.fenceKey(&w.Fences[i]), key{})
			continue
		}
		proof = s.fenceKey(&w.Fences[i])
		if b, err = appendPut(ops.next(b), txnSuccess, proof, nil, 0); err != nil {
			return b, 0, key{}, err
		}
	}
	for _, r := range w.Records {
		b = ops.next(b)
		if r.Value == nil {
			b = appendDelete(b, txnSuccess, s.key(r.Key), key{})
			continue
		}
		if b, err = appendPut(b, txnSuccess, s.key(r.Key), r.Value, r.Lease); err != nil {
			return b, 0, key{}, fmt.Errorf("record %s: %w", r.Key, err)
		}
		if proof.rest == "" {
			proof = s.key(r.Key)
		}
	}
	if !proved {
		proof = key{s.side, fmt.Sprintf("t/%s/proof/%d", s.cfg.Sender, at)}
		b = appendPutString(ops.next(b), txnSuccess, proof, "-")
	}
	ops.close(b)
	end(b, txn)
	end(b, op)
	return b, ops.path(compares), proof, nil
}

// deepest is how many operations go into one of the deeper transactions of a branch. With
// etcd's own limit of 128 that leaves room for more records than a request has bytes.
const deepest = 8

// branch is the list of a nested transaction's operations. Operations along a path add
// up: what exceeds the compares goes one level deeper, in transactions without
// conditions, which cost the path no more than their own length.
type branch struct {
	total, flat int
	n           int
	op, txn     int // where the open deeper transaction starts
}

func (o *branch) deep() bool { return o.total > o.flat }

// next makes room for the next operation.
func (o *branch) next(b []byte) []byte {
	if o.deep() && o.n%deepest == 0 {
		o.close(b)
		b, o.op = begin(b, txnSuccess)
		b, o.txn = begin(b, opTxn)
	}
	o.n++
	return b
}

func (o *branch) close(b []byte) {
	if o.op > 0 {
		end(b, o.txn)
		end(b, o.op)
	}
}

// path is how many operations the transaction costs the path.
func (o *branch) path(compares int) int {
	if !o.deep() {
		return max(compares, o.total)
	}
	return deepest + max(compares, (o.total+deepest-1)/deepest)
}

func (s *Store) guard(g cellstate.Guard) compare {
	c := compare{key: s.key(g.Key), end: s.rangeEnd(g), target: modTarget, revision: int64(g.Revision)}
	switch {
	case g.NotNewer:
		c.result, c.revision = less, c.revision+1
	case g.Revision == 0:
		c.target = createTarget
	}
	return c
}

func (s *Store) rangeEnd(g cellstate.Guard) key {
	if g.End == "" {
		return key{}
	}
	return s.key(g.End)
}
