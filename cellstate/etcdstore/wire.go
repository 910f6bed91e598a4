package etcdstore

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// The tags (field number and type) of etcd's messages that are written or read here; the
// names are those of etcdserverpb/rpc.proto and mvccpb/kv.proto.
const (
	varintType = uint64(protowire.VarintType)
	bytesType  = uint64(protowire.BytesType)

	compareResult   = 1<<3 | varintType
	compareTarget   = 2<<3 | varintType
	compareKey      = 3<<3 | bytesType
	compareCreate   = 5<<3 | varintType
	compareMod      = 6<<3 | varintType
	compareValue    = 7<<3 | bytesType
	compareRangeEnd = 64<<3 | bytesType

	txnCompare = 1<<3 | bytesType
	txnSuccess = 2<<3 | bytesType
	txnFailure = 3<<3 | bytesType

	opRange  = 1<<3 | bytesType // in RequestOp and in ResponseOp
	opPut    = 2<<3 | bytesType
	opDelete = 3<<3 | bytesType
	opTxn    = 4<<3 | bytesType

	putKey         = 1<<3 | bytesType
	putValue       = 2<<3 | bytesType
	putLease       = 3<<3 | varintType
	rangeKey       = 1<<3 | bytesType
	deleteKey      = 1<<3 | bytesType
	deleteRangeEnd = 2<<3 | bytesType

	replyHeader    = 1<<3 | bytesType // of a TxnResponse and of a WatchResponse
	headerCluster  = 1<<3 | varintType
	headerRevision = 3<<3 | varintType

	replySucceeded = 2<<3 | varintType
	replyResponses = 3<<3 | bytesType
	rangeKVs       = 2<<3 | bytesType

	kvKey   = 1<<3 | bytesType
	kvMod   = 3<<3 | varintType
	kvValue = 5<<3 | bytesType

	watchCreate     = 1<<3 | bytesType
	watchProgress   = 3<<3 | bytesType
	createKey       = 1<<3 | bytesType
	createRangeEnd  = 2<<3 | bytesType
	createRevision  = 3<<3 | varintType
	watchCreated    = 3<<3 | varintType
	watchCanceled   = 4<<3 | varintType
	watchCompacted  = 5<<3 | varintType
	watchReason     = 6<<3 | bytesType
	watchEvents     = 11<<3 | bytesType
	eventType       = 1<<3 | varintType
	eventKV         = 2<<3 | bytesType
	eventTypeDelete = 1
)

// field reads the fields of one message, one after the other.
type field struct {
	rest  []byte
	tag   uint64
	num   uint64 // a varint's value
	bytes []byte // a string's, or a nested message's: a part of what is read
	err   error
}

func read(raw []byte) field { return field{rest: raw} }

// next reads a field; after the last one, and where the message is malformed, which err
// then says, it returns false.
func (f *field) next() bool {
	if len(f.rest) == 0 {
		return false
	}
	var n int
	if f.tag, n = protowire.ConsumeVarint(f.rest); n < 0 {
		return f.malformed(n)
	}
	f.rest = f.rest[n:]
	switch f.tag & 7 {
	case varintType:
		f.num, n = protowire.ConsumeVarint(f.rest)
	case bytesType:
		f.bytes, n = protowire.ConsumeBytes(f.rest)
	default:
		number, kind := protowire.DecodeTag(f.tag)
		n = protowire.ConsumeFieldValue(number, kind, f.rest)
	}
	if n < 0 {
		return f.malformed(n)
	}
	f.rest = f.rest[n:]
	return true
}

func (f *field) malformed(n int) bool {
	f.rest, f.err = nil, protowire.ParseError(n)
	return false
}

func appendString(b []byte, tag uint64, s string) []byte {
	b = protowire.AppendVarint(b, tag)
	b = protowire.AppendVarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendInt(b []byte, tag uint64, v int64) []byte {
	b = protowire.AppendVarint(b, tag)
	return protowire.AppendVarint(b, uint64(v))
}

// lengthBytes is how many bytes hold the length of a message that is not known when it
// is begun. A varint may be longer than it needs to be.
const lengthBytes = 4

// mostBytes is the longest message that fits such a length.
const mostBytes = 1<<(7*lengthBytes) - 1

// begin begins a nested message and returns where its content starts, for end.
func begin(b []byte, tag uint64) (_ []byte, start int) {
	b = protowire.AppendVarint(b, tag)
	b = append(b, 0, 0, 0, 0)
	return b, len(b)
}

// end writes the length of the nested message that started at start and goes to the end
// of b.
func end(b []byte, start int) {
	n := len(b) - start
	length := b[start-lengthBytes : start]
	length[0], length[1], length[2], length[3] = byte(n)|0x80, byte(n>>7)|0x80, byte(n>>14)|0x80, byte(n>>21)&0x7f
}
