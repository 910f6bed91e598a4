package etcdstore

import (
	"errors"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
)

// TestRenew: whoever knew the store before commits nothing until it has loaded again.
func TestRenew(t *testing.T) {
	s := open(t, Config{})
	before, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	incarnation, err := s.Renew(t.Context())
	if err != nil || incarnation == before.Incarnation() {
		t.Fatalf("%s after %s: %v", incarnation, before.Incarnation(), err)
	}
	write := cellstate.Write{Records: []cellstate.Record{numbered(1)}}
	if out, err := s.Commit(t.Context(), write); !errors.Is(err, cellstate.ErrIncarnation) {
		t.Errorf("%+v, %v", out, err)
	}
	after, err := s.Load(t.Context())
	if err != nil || after.Incarnation() != incarnation {
		t.Fatalf("loaded %s, %v; want %s", after.Incarnation(), err, incarnation)
	}
	if out, err := s.Commit(t.Context(), write); err != nil || out.Applied[0] == 0 {
		t.Errorf("%+v, %v", out, err)
	}
	other := open(t, Config{})
	empty, err := Dial(Config{Endpoints: other.cfg.Endpoints, Cell: "never"})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	if _, err := empty.Renew(t.Context()); !errors.Is(err, cellstate.ErrNotFound) {
		t.Errorf("a cell that never was: %v", err)
	}
}
