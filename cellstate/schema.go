package cellstate

import (
	"fmt"

	"github.com/hashicorp/go-memdb"
)

// index reads a row's key with a function: cheaper than memdb's reflection.
type index[T any] func(*T) string

func (f index[T]) FromObject(raw any) (bool, []byte, error) {
	key := f(raw.(*T))
	if key == "" {
		return false, nil, nil
	}
	return true, append([]byte(key), 0), nil // the zero ends the key, so that "a" is no prefix match of "ab"
}

func (f index[T]) FromArgs(args ...any) ([]byte, error) {
	key, err := f.PrefixFromArgs(args...)
	return append(key, 0), err
}

func (f index[T]) PrefixFromArgs(args ...any) ([]byte, error) {
	if s, ok := args[0].(string); ok && len(args) == 1 {
		return []byte(s), nil
	}
	return nil, fmt.Errorf("an index takes one string, not %v", args)
}

func table[T any](name string, id index[T]) *memdb.TableSchema {
	return &memdb.TableSchema{Name: name, Indexes: map[string]*memdb.IndexSchema{
		"id": {Name: "id", Unique: true, Indexer: id},
	}}
}

// newDB is an empty database for what is looked up by several keys and changes rarely.
func newDB() (*memdb.MemDB, error) {
	schema := &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{}}
	for _, t := range []*memdb.TableSchema{
		table("schedulers", func(s *Scheduler) string { return s.Name }),
		table("conflicts", func(c *conflictRow) string { return c.id }),
		table("asks", func(a *askRow) string { return a.id }),
		table("execs", func(e *execRow) string { return e.id }),
		table("quotas", func(q *Quota) string { return q.Scope.Kind + "/" + q.Scope.Name }),
		table("rules", (*ruleRow).place),
		table("labels", (*labelRow).id),
		table("scopes", func(s *scopeRow) string { return s.name }),
		table("meta", func(m *metaRow) string { return m.name }),
	} {
		schema.Tables[t.Name] = t
	}
	return memdb.NewMemDB(schema)
}
