package etcdstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// A store that is full says so, is read as ever, keeps its leases, and is cured in place.
func TestAFullStore(t *testing.T) {
	t.Parallel()
	server, err := embedded.Settings{QuotaBytes: 16 << 20}.Start(t.Context(), t.TempDir(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	cfg := Config{Endpoints: []string{server.Endpoint()}}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	const ttl = time.Second
	lease, err := s.Grant(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := s.KeepAlive(ctx, lease); err != nil {
			t.Errorf("keep alive: %v", err)
		}
	})
	defer func() { cancel(); keeping.Wait() }()
	leased := numbered(1)
	leased.Lease = lease
	if _, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{leased}}); err != nil {
		t.Fatal(err)
	}

	value := &ohmv1.Meta{Value: strings.Repeat("x", 1<<20)}
	read := cellstate.Revision(0)
	for {
		out, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{{Key: cellstate.MetaKey("large"), Value: value, Read: read}}})
		if errors.Is(err, cellstate.ErrNoSpace) {
			if errors.Is(err, cellstate.ErrUnknown) || errors.Is(err, cellstate.ErrUnreachable) || !strings.Contains(err.Error(), "ohm store doctor") {
				t.Errorf("full: %v", err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		read = out.Applied[0]
	}
	full := time.Now()
	if _, err := s.Grant(t.Context(), ttl); !errors.Is(err, cellstate.ErrNoSpace) {
		t.Errorf("grant: %v", err)
	}
	if _, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{{Key: leased.Key}}}); !errors.Is(err, cellstate.ErrNoSpace) {
		t.Errorf("a delete: %v", err)
	}
	again, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("a full store cannot be opened: %v", err)
	}
	again.Close()
	for tick := time.Tick(50 * time.Millisecond); time.Since(full) < 3*ttl; <-tick {
		if now, err := s.Load(t.Context()); err != nil {
			t.Fatalf("a full store cannot be loaded: %v", err)
		} else if m, _ := now.Meta("n/00001"); m == nil {
			t.Fatalf("a lease ended %v after the store was full", time.Since(full))
		}
	}
	status, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m := status.Members[0]; len(status.Members) != 1 || len(m.Alarms) != 1 || m.Alarms[0] != "NOSPACE" || m.QuotaBytes != 16<<20 || !m.Leader || len(status.Findings) < 2 {
		t.Errorf("status: %v", status)
	}

	var steps []string
	if err := s.Cure(t.Context(), func(step *ohmv1.StoreStep) { steps = append(steps, step.Step) }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(steps, " "); got != "compact defragment disarm" {
		t.Errorf("steps: %s", got)
	}
	if _, err := s.Commit(t.Context(), cellstate.Write{Records: []cellstate.Record{numbered(2)}}); err != nil {
		t.Errorf("after the cure: %v", err)
	}
	if status, err = s.Status(t.Context()); err != nil || len(status.Findings) > 0 || status.HistoryFrom < int64(read) {
		t.Errorf("after the cure: %v, %v", status, err)
	}
}

// What is wrong with a store is said, and nothing else.
func TestDiagnosis(t *testing.T) {
	const mib = 1 << 20
	for _, row := range []struct {
		name   string
		member *ohmv1.StoreMember
		want   []string
	}{
		{"sound", &ohmv1.StoreMember{FileBytes: 10 * mib, InUseBytes: 9 * mib, QuotaBytes: 16 * mib}, nil},
		{"no quota known", &ohmv1.StoreMember{FileBytes: 10 * mib, InUseBytes: 9 * mib}, nil},
		{"mostly free", &ohmv1.StoreMember{FileBytes: 12 * mib, InUseBytes: 2 * mib, QuotaBytes: 16 * mib}, []string{"75% of its quota, of which 10Mi are free"}},
		{"nearly full", &ohmv1.StoreMember{FileBytes: 14 * mib, InUseBytes: 14 * mib, QuotaBytes: 16 * mib}, []string{"needs 87% of its quota"}},
		{"full", &ohmv1.StoreMember{FileBytes: 16 * mib, InUseBytes: 2 * mib, QuotaBytes: 16 * mib, Alarms: []string{"NOSPACE"}}, []string{"14Mi are free", "is full"}},
		{"corrupt", &ohmv1.StoreMember{Alarms: []string{"CORRUPT"}}, []string{"is corrupt"}},
		{"away", &ohmv1.StoreMember{Error: "refused"}, []string{"does not answer: refused"}},
	} {
		got := diagnose(&ohmv1.StoreStatusResponse{Members: []*ohmv1.StoreMember{row.member}})
		ok := len(got) == len(row.want)
		for i := range min(len(got), len(row.want)) {
			ok = ok && strings.Contains(got[i], row.want[i])
		}
		if !ok {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
