package etcdstore

import (
	"testing"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
)

// What etcd was started with is found out, without a write.
func TestLimitsAreFoundOut(t *testing.T) {
	for _, row := range []struct {
		name     string
		settings embedded.Settings
		given    Config
		ops      int
		bytes    int
	}{
		{"etcd's own", embedded.Settings{MaxTxnOps: presetTxnOps, MaxRequestBytes: presetRequestBytes}, Config{}, presetTxnOps, presetRequestBytes},
		{"larger ones", embedded.Settings{MaxTxnOps: 777, MaxRequestBytes: 5 << 20}, Config{}, 777, 5 << 20},
		{"more than is of use", embedded.Settings{MaxTxnOps: 20_000, MaxRequestBytes: 20 << 20}, Config{}, mostTxnOps, mostRequestBytes},
		{"given ones are taken at their word", embedded.Settings{}, Config{MaxTxnOps: 200, MaxRequestBytes: 2 << 20}, 200, 2 << 20},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server, err := row.settings.Start(t.Context(), t.TempDir(), zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			row.given.Endpoints = []string{server.Endpoint()}
			var revisions [2]int64
			for i := range revisions {
				s, err := Open(t.Context(), row.given)
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Config(); got.MaxTxnOps != row.ops || got.MaxRequestBytes > row.bytes || got.MaxRequestBytes < row.bytes-64<<10 {
					t.Errorf("%d operations and %d bytes, want %d and %d", got.MaxTxnOps, got.MaxRequestBytes, row.ops, row.bytes)
				}
				present, err := s.client.Get(t.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				revisions[i] = present.Header.Revision
				s.Close()
			}
			if revisions[0] != revisions[1] {
				t.Errorf("to open a store took it from revision %d to %d", revisions[0], revisions[1])
			}
		})
	}
}
