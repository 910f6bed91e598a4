package embedded_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate/etcdstore/embedded"
)

func TestRestartKeepsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		s, err := embedded.Start(t.Context(), dir, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := c.Put(t.Context(), "k", "v"); err != nil {
				t.Fatal(err)
			}
			if _, err := embedded.Start(t.Context(), dir, zap.NewNop()); err == nil {
				t.Fatal("a second server started on a data dir that is in use")
			} else {
				t.Log(err)
			}
		} else if got, err := c.Get(t.Context(), "k"); err != nil || len(got.Kvs) != 1 {
			t.Fatalf("after the restart: %v, %v", got, err)
		}
		c.Close()
		s.Close()
	}
}
