package memstore

import (
	"errors"
	"iter"
	"strings"

	"github.com/hashicorp/go-memdb"

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
	db       *memdb.MemDB
	revision cellstate.Revision
}

const table = "records"

func newState() state {
	db, err := memdb.NewMemDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		table: {Name: table, Indexes: map[string]*memdb.IndexSchema{
			"id": {Name: "id", Unique: true, Indexer: byKey{}},
		}},
	}})
	if err != nil {
		panic(err) // the schema above is wrong: no input can do this
	}
	return state{db: db.Snapshot()}
}

// byKey sorts records by their plain key.
type byKey struct{}

func (byKey) FromObject(raw any) (bool, []byte, error) { return true, []byte(raw.(*record).key), nil }

func (byKey) FromArgs(args ...any) ([]byte, error) {
	if key, ok := args[0].(string); ok {
		return []byte(key), nil
	}
	return nil, errors.New("a key is a string")
}

func (s state) copy() state { return state{s.db.Snapshot(), s.revision} }

// get is the record under a key; nil if there is none.
func (s state) get(key string) *record {
	raw, err := s.db.Txn(false).First(table, "id", key)
	if err != nil || raw == nil {
		return nil
	}
	return raw.(*record)
}

// scan yields the records of [from, end) by key; of all from on if end is empty.
func (s state) scan(from, end string) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		it, err := s.db.Txn(false).LowerBound(table, "id", from)
		if err != nil {
			return
		}
		for raw := it.Next(); raw != nil; raw = it.Next() {
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
	txn := s.db.Txn(true)
	for _, c := range e.changes {
		// Neither can fail: the row has a key, and what is deleted is there.
		if c.deleted {
			_ = txn.Delete(table, &record{key: c.key})
		} else {
			_ = txn.Insert(table, &record{c.key, c.value, e.revision, c.lease})
		}
	}
	txn.Commit()
	s.revision = e.revision
}

// snapshot decodes the whole state.
func (s state) snapshot() (*cellstate.Snapshot, error) {
	var records []cellstate.Change
	fences := map[cellstate.NodeName]cellstate.Revision{}
	for r := range s.scan("", "") {
		if name, ok := strings.CutPrefix(r.key, fencePrefix); ok {
			fences[cellstate.NodeName(name)] = r.revision
			continue
		}
		key := cellstate.Key(r.key)
		value, err := decode(key, r.value)
		if err != nil {
			return nil, err
		}
		records = append(records, cellstate.Change{Key: key, Value: value, Revision: r.revision})
	}
	return cellstate.NewSnapshot(s.revision, records, fences)
}
