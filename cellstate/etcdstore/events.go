package etcdstore

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
)

// watchReply is one message of a watch.
type watchReply struct {
	prefix string // of the keys; what is read has it trimmed

	header
	created, canceled bool
	compacted         cellstate.Revision // the revision asked for is gone; what is kept begins here
	reason            string             // why it was canceled
	changes           []cellstate.Change
	reached           cellstate.Revision // the highest of changes
	unreadable        error              // a record that is not what its key says
}

func (r *watchReply) parse(raw []byte) error {
	*r = watchReply{prefix: r.prefix}
	events := 0
	for f := read(raw); f.next(); {
		if f.tag == watchEvents {
			events++
		}
	}
	r.changes = make([]cellstate.Change, 0, events)
	f := read(raw)
	for f.next() {
		var err error
		switch f.tag {
		case replyHeader:
			err = r.header.parse(f.bytes)
		case watchCreated:
			r.created = f.num != 0
		case watchCanceled:
			r.canceled = f.num != 0
		case watchCompacted:
			r.compacted = cellstate.Revision(f.num)
		case watchReason:
			r.reason = string(f.bytes)
		case watchEvents:
			err = r.parseEvent(f.bytes)
		}
		if err != nil {
			return err
		}
	}
	return f.err
}

func (r *watchReply) parseEvent(raw []byte) error {
	var kind uint64
	var kv keyValue
	f := read(raw)
	for f.next() {
		switch f.tag {
		case eventType:
			kind = f.num
		case eventKV:
			var err error
			if kv, err = parseKV(f.bytes); err != nil {
				return err
			}
		}
	}
	if f.err != nil {
		return f.err
	}
	c, err := change(r.prefix, kv, kind == eventTypeDelete)
	if err != nil {
		r.unreadable = err
	}
	r.changes = append(r.changes, c)
	r.reached = max(r.reached, c.Revision)
	return nil
}

// change decodes a record. A kind that this release does not know has no value.
func change(prefix string, kv keyValue, deleted bool) (cellstate.Change, error) {
	name := kv.key
	if len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix {
		name = name[len(prefix):]
	}
	c := cellstate.Change{Key: cellstate.Key(name), Deleted: deleted, Revision: kv.mod}
	if deleted {
		return c, nil
	}
	var err error
	if c.Value, err = parseRecord(c.Parse().Kind, kv.value); err != nil {
		c.Value = nil
		return c, fmt.Errorf("record %s at revision %d cannot be read: %w", c.Key, kv.mod, err)
	}
	return c, nil
}

// parseRecord decodes the value of a key of some kind; nil if this release knows none.
func parseRecord(kind cellstate.Kind, raw []byte) (proto.Message, error) {
	if kind == cellstate.KindPlacement {
		return parsePlacement(raw)
	}
	value := kind.NewValue()
	switch v := value.(type) {
	case nil:
		return nil, nil
	case interface{ UnmarshalVTUnsafe([]byte) error }:
		// The message's strings point into its own copy of the record: one allocation for all.
		return value, v.UnmarshalVTUnsafe(bytes.Clone(raw))
	}
	return value, proto.Unmarshal(raw, value)
}
