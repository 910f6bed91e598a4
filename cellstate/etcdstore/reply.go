package etcdstore

import (
	"github.com/ohmcell/ohm/cellstate"
)

// txnReply is what is read of the reply to a transaction.
type txnReply struct {
	header
	succeeded bool
	shape     []int  // by operation, as it was asked: how many nested transactions it holds; none: one each
	nested    []bool // by nested transaction: whether it succeeded
	ops       int    // that have answered
	// Of the first key that the transaction read.
	found bool
	value string
	mod   int64
}

type header struct {
	cluster  uint64 // etcd's id of the cluster
	revision cellstate.Revision
}

func (h *header) parse(raw []byte) error {
	f := read(raw)
	for f.next() {
		switch f.tag {
		case headerCluster:
			h.cluster = f.num
		case headerRevision:
			h.revision = cellstate.Revision(f.num)
		}
	}
	return f.err
}

func (r *txnReply) parse(raw []byte) error {
	*r = txnReply{shape: r.shape, nested: r.nested[:0]}
	f := read(raw)
	for f.next() {
		switch f.tag {
		case replyHeader:
			if err := r.header.parse(f.bytes); err != nil {
				return err
			}
		case replySucceeded:
			r.succeeded = f.num != 0
		case replyResponses:
			if err := r.parseOp(f.bytes); err != nil {
				return err
			}
		}
	}
	return f.err
}

// parseOp reads what one operation has answered.
func (r *txnReply) parseOp(raw []byte) error {
	holds := 1
	if r.ops < len(r.shape) {
		holds = r.shape[r.ops]
	}
	r.ops++
	before := len(r.nested)
	succeeded := false
	f := read(raw)
	for f.next() {
		switch f.tag {
		case opTxn:
			inner := read(f.bytes)
			for inner.next() {
				switch {
				case inner.tag == replySucceeded:
					succeeded = inner.num != 0
				case inner.tag == replyResponses && holds > 1:
					one := txnReply{nested: r.nested}
					if err := one.parseOp(inner.bytes); err != nil {
						return err
					}
					r.nested = one.nested
				}
			}
			if inner.err != nil {
				return inner.err
			}
		case opRange:
			if err := r.parseRange(f.bytes); err != nil {
				return err
			}
		}
	}
	switch {
	case holds == 1:
		r.nested = append(r.nested, succeeded)
	case !succeeded:
		r.nested = append(r.nested[:before], make([]bool, holds)...)
	}
	return f.err
}

func (r *txnReply) parseRange(raw []byte) error {
	f := read(raw)
	for f.next() {
		if f.tag != rangeKVs || r.found {
			continue
		}
		kv, err := parseKV(f.bytes)
		if err != nil {
			return err
		}
		r.found, r.value, r.mod = true, string(kv.value), int64(kv.mod)
	}
	return f.err
}

// keyValue is what is read of a stored key; key and value are parts of what it was read
// from.
type keyValue struct {
	key, value []byte
	mod        cellstate.Revision
}

func parseKV(raw []byte) (keyValue, error) {
	var kv keyValue
	f := read(raw)
	for f.next() {
		switch f.tag {
		case kvKey:
			kv.key = f.bytes
		case kvMod:
			kv.mod = cellstate.Revision(f.num)
		case kvValue:
			kv.value = f.bytes
		}
	}
	return kv, f.err
}
