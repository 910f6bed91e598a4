package memstore

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
)

// Commit applies each write alone; see cellstate.Store.
func (s *Store) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return cellstate.Outcome{}, fmt.Errorf("%w: %w", cellstate.ErrUnreachable, err)
	}
	if err := unique(writes); err != nil {
		return cellstate.Outcome{}, err
	}
	encoded := make([][]change, len(writes))
	for i, w := range writes {
		var err error
		if encoded[i], err = encode(w); err != nil {
			return cellstate.Outcome{}, err
		}
	}
	out, err := s.commit(writes, encoded)
	if err == nil && s.faults.dropReply != nil && s.faults.dropReply(writes) {
		return cellstate.Outcome{}, fmt.Errorf("%w: the reply was dropped", cellstate.ErrUnknown)
	}
	return out, err
}

func (s *Store) commit(writes []cellstate.Write, encoded [][]change) (cellstate.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changes := range encoded {
		for _, c := range changes {
			if c.lease != 0 && s.leases[c.lease] == nil {
				return cellstate.Outcome{}, fmt.Errorf("lease %d: %w", c.lease, cellstate.ErrNotFound)
			}
		}
	}
	out := cellstate.Outcome{Applied: make([]cellstate.Revision, len(writes))}
	var changes []change
	var holds []int
	for i, w := range writes { // all are judged on the state before the request
		if s.now.holds(w) {
			holds = append(holds, i)
			changes = append(changes, encoded[i]...)
			changes = append(changes, s.now.deletions(w)...)
		}
	}
	out.Revision = s.write(changes)
	for _, i := range holds {
		out.Applied[i] = out.Revision
	}
	return out, nil
}

// unique refuses a request in which a key or a fence is written twice, as etcd does, also
// if one of the writes would not apply.
func unique(writes []cellstate.Write) error {
	seen := map[string]bool{}
	once := func(key string) error {
		if seen[key] {
			return fmt.Errorf("key %s is written twice in one request", key)
		}
		seen[key] = true
		return nil
	}
	for _, w := range writes {
		for _, f := range w.Fences {
			if err := once(side + f.Side()); err != nil {
				return err
			}
		}
		for _, r := range w.Records {
			if err := once(string(r.Key)); err != nil {
				return err
			}
		}
	}
	for _, w := range writes {
		for _, g := range w.Guards {
			if !g.Delete {
				continue
			}
			for key := range seen {
				if inside(g, key) {
					return fmt.Errorf("key %s is written and deleted by range in one request", key)
				}
			}
		}
	}
	return nil
}

func inside(g cellstate.Guard, key string) bool {
	if g.End == "" {
		return key == string(g.Key)
	}
	return string(g.Key) <= key && key < string(g.End)
}

func encode(w cellstate.Write) ([]change, error) {
	var out []change
	for _, f := range w.Fences {
		out = append(out, change{key: side + f.Side(), deleted: f.Drop})
	}
	for _, r := range w.Records {
		c := change{key: string(r.Key), lease: r.Lease, deleted: r.Value == nil}
		if r.Value != nil {
			var err error
			if c.value, err = proto.Marshal(r.Value); err != nil {
				return nil, fmt.Errorf("record %s: %w", r.Key, err)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// holds says whether everything that a write compares is as it expects.
func (s state) holds(w cellstate.Write) bool {
	is := func(key string, revision cellstate.Revision) bool {
		r := s.get(key)
		return r == nil && revision == 0 || r != nil && r.revision == revision
	}
	for _, f := range w.Fences {
		if !is(side+f.Side(), f.Compared) {
			return false
		}
	}
	for _, r := range w.Records {
		if r.Read != cellstate.ReadGuarded && !is(string(r.Key), r.Read) {
			return false
		}
	}
	for _, g := range w.Guards {
		if !s.guarded(g) {
			return false
		}
	}
	return true
}

// guarded judges one guard. As in etcd, a range without keys counts as a key that was
// never written.
func (s state) guarded(g cellstate.Guard) bool {
	holds := func(revision cellstate.Revision) bool {
		return revision == g.Revision || g.NotNewer && revision < g.Revision
	}
	found := false
	for r := range s.covered(g) {
		found = true
		if !holds(r.revision) {
			return false
		}
	}
	return found || holds(0)
}

// covered yields the records that a guard is about.
func (s state) covered(g cellstate.Guard) func(func(*record) bool) {
	end := string(g.End)
	if end == "" {
		end = string(g.Key) + "\x00"
	}
	return s.scan(string(g.Key), end)
}

// deletions are what the guards with Delete remove.
func (s state) deletions(w cellstate.Write) []change {
	var out []change
	for _, g := range w.Guards {
		if !g.Delete {
			continue
		}
		for r := range s.covered(g) {
			out = append(out, change{key: r.key, deleted: true})
		}
	}
	return out
}
