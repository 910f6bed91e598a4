package memstore

import (
	"iter"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix"

	"github.com/ohmcell/ohm/cellstate"
)

// record is what stands under one key. It is never written to.
type record struct {
	key      string
	value    []byte
	revision cellstate.Revision // at which it was last put
	lease    cellstate.Lease
}

// state is all records, sorted by key, at one revision. A copy costs nothing.
type state struct {
	records  *iradix.Tree // of *record, by key
	revision cellstate.Revision
}

func newState() state { return state{records: iradix.New()} }

// get is the record under a key; nil if there is none.
func (s state) get(key string) *record {
	if r, ok := s.records.Get([]byte(key)); ok {
		return r.(*record)
	}
	return nil
}

// scan yields the records of [from, end) by key; of all from on if end is empty.
func (s state) scan(from, end string) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		it := s.records.Root().Iterator()
		it.SeekLowerBound([]byte(from))
		for _, raw, ok := it.Next(); ok; _, raw, ok = it.Next() {
			r := raw.(*record)
			if (end != "" && r.key >= end) || !yield(r) {
				return
			}
		}
	}
}

// effective leaves out the deletions of what is not there (or is deleted twice).
func (s state) effective(changes []change) []change {
	gone := map[string]bool{}
	var out []change
	for _, c := range changes {
		if c.deleted && (gone[c.key] || s.get(c.key) == nil) {
			continue
		}
		gone[c.key] = c.deleted
		out = append(out, c)
	}
	return out
}

// apply moves the state on to an event's revision. Copies taken before stay as they are.
func (s *state) apply(e event) {
	txn := s.records.Txn()
	for _, c := range e.changes {
		if c.deleted {
			txn.Delete([]byte(c.key))
		} else {
			txn.Insert([]byte(c.key), &record{c.key, c.value, e.revision, c.lease})
		}
	}
	s.records = txn.Commit()
	s.revision = e.revision
}

// snapshot decodes the whole state.
func (s state) snapshot() (*cellstate.Snapshot, error) {
	var records []cellstate.Change
	var reader cellstate.Reader
	fences, scopes := map[cellstate.NodeName]cellstate.Revision{}, map[string]cellstate.Revision{}
	for r := range s.scan("", "") {
		if name, ok := strings.CutPrefix(r.key, fencePrefix); ok {
			fences[cellstate.NodeName(name)] = r.revision
			continue
		}
		if name, ok := strings.CutPrefix(r.key, scopePrefix); ok {
			scopes[name] = r.revision
			continue
		}
		c, err := reader.Change(cellstate.Key(r.key), r.value, r.revision, false)
		if err != nil {
			return nil, err
		}
		records = append(records, c)
	}
	return cellstate.NewSnapshot(s.revision, records, fences, scopes)
}
