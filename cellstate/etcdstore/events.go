package etcdstore

import (
	"strings"

	"github.com/ohmcell/ohm/cellstate"
)

// reader reads the messages of one watch, one after the other.
type reader struct {
	records cellstate.Reader
	events  []event // of the message at work: room that the next one takes over
	keys    []byte  // likewise
}

// watchReply is one message of a watch.
type watchReply struct {
	prefix string  // of the keys; what is read has it trimmed
	reader *reader // of all messages of the watch

	header
	created, canceled bool
	compacted         cellstate.Revision // the revision asked for is gone; what is kept begins here
	reason            string             // why it was canceled
	changes           []cellstate.Change
	reached           cellstate.Revision // the highest of changes
	unreadable        error              // a record that is not what its key says
}

func (r *watchReply) parse(raw []byte) error {
	*r = watchReply{prefix: r.prefix, reader: r.reader}
	found, keys := r.reader.events[:0], r.reader.keys[:0]
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
			var e event
			if e, err = parseEvent(f.bytes); err == nil {
				found = append(found, e)
				keys = append(keys, e.key...)
			}
		}
		if err != nil {
			return err
		}
	}
	if f.err != nil {
		return f.err
	}
	r.read(found, string(keys))
	clear(found) // they point into raw
	r.reader.events, r.reader.keys = found, keys
	return nil
}

// read makes changes of events, whose keys stand one after the other in keys: one piece of
// memory for all, which goes with the batch.
func (r *watchReply) read(events []event, keys string) {
	r.changes = make([]cellstate.Change, 0, len(events))
	for i := range events {
		e := &events[i]
		key := keys[:len(e.key)]
		keys = keys[len(e.key):]
		c, err := r.reader.records.Change(cellstate.Key(strings.TrimPrefix(key, r.prefix)), e.value, e.mod, e.deleted)
		if err != nil {
			r.unreadable = err
		}
		r.changes = append(r.changes, c)
		r.reached = max(r.reached, c.Revision)
	}
}

// event of a watch.
type event struct {
	keyValue
	deleted bool
}

func parseEvent(raw []byte) (e event, err error) {
	f := read(raw)
	for f.next() {
		switch f.tag {
		case eventType:
			e.deleted = f.num == eventTypeDelete
		case eventKV:
			if e.keyValue, err = parseKV(f.bytes); err != nil {
				return e, err
			}
		}
	}
	return e, f.err
}
