package storetest

import (
	"context"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Records with a lease end with it.
func leaseLaws() []law {
	alive := func(l cellstate.Lease) cellstate.Record {
		return cellstate.Record{Key: cellstate.AliveKey("n1"), Value: &ohmv1.Alive{Node: "n1"}, Lease: l}
	}
	grant := func(c *cell) (cellstate.Leaser, cellstate.Lease) {
		l := c.store.(cellstate.Leaser)
		id, err := l.Grant(c.ctx, time.Minute)
		if err != nil || id == 0 {
			c.Fatalf("lease %d, error %v", id, err)
		}
		return l, id
	}
	return []law{
		{"leases/a revoked lease takes its records, as an event", func(c *cell) {
			leaser, id := grant(c)
			c.Node(celltest.Node{Name: "n1"})
			c.Put(alive(id))
			s := c.side()
			if s.Snapshot().Node("n1").Alive == nil {
				c.Fatal("the record is not there")
			}
			if err := leaser.Revoke(c.ctx, id); err != nil {
				c.Fatal(err)
			}
			c.eventually("the mirror shows it gone", func() bool { return s.Snapshot().Node("n1").Alive == nil })
			if c.Snapshot().Node("n1").Alive != nil {
				c.Error("the record is still there")
			}
		}},
		{"leases/a record put again without lease stays", func(c *cell) {
			leaser, id := grant(c)
			again := alive(0)
			again.Read = c.Put(alive(id))
			c.Put(again)
			if err := leaser.Revoke(c.ctx, id); err != nil {
				c.Fatal(err)
			}
			if n := c.Snapshot().Node("n1"); n == nil || n.Alive == nil {
				c.Error("the record is gone")
			}
		}},
		{"leases/one that has ended holds nothing", func(c *cell) {
			leaser, id := grant(c)
			if err := leaser.Revoke(c.ctx, id); err != nil {
				c.Fatal(err)
			}
			if out, err := c.store.Commit(c.ctx, cellstate.Write{Records: []cellstate.Record{alive(id)}}); err == nil {
				c.Errorf("outcome %+v", out)
			}
			if err := leaser.KeepAlive(c.ctx, id); err == nil || c.ctx.Err() != nil {
				c.Errorf("keepalive: %v, context: %v", err, c.ctx.Err())
			}
		}},
		{"leases/keeping one alive ends with the context", func(c *cell) {
			leaser, id := grant(c)
			ctx, cancel := context.WithCancel(c.ctx)
			kept := make(chan error, 1)
			go func() { kept <- leaser.KeepAlive(ctx, id) }()
			cancel()
			if err := <-kept; err != nil {
				c.Error(err)
			}
			c.Put(alive(id))
		}},
	}
}
