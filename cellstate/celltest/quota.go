package celltest

import (
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Namespace is the scope of a namespace.
func Namespace(name string) cellstate.Scope {
	return cellstate.Scope{Kind: cellstate.NamespaceScope, Name: name}
}

// Quota sets the quota of a scope, as the operator would.
func (c *Cell) Quota(scope cellstate.Scope, limit *ohmv1.Amounts) cellstate.Revision {
	c.t.Helper()
	w, _ := cellstate.QuotaWrite(c.Snapshot(), scope, &ohmv1.Quota{Limit: limit})
	return c.Write(w)
}

// CPU is a limit of so many thousandths of a core.
func CPU(milli int64) *ohmv1.Amounts { return &ohmv1.Amounts{CpuMilli: proto.Int64(milli)} }

// Account is what an instance of scheduler batch has in a scope; Txn's are of instance test.
func Account(scope cellstate.Scope, instance string) cellstate.Account {
	return cellstate.Account{Scope: scope, Spender: cellstate.Spender{Scheduler: "batch", Instance: instance}}
}

// Share sets what an account is granted, whatever the quota, and leaves the rest of its
// record as it is.
func (c *Cell) Share(a cellstate.Account, granted *ohmv1.Amounts) cellstate.Revision {
	c.t.Helper()
	return c.ShareOf(a, func(r *ohmv1.Share) { r.Granted = granted })
}

// ShareOf changes the record of a share, or makes one.
func (c *Cell) ShareOf(a cellstate.Account, change func(*ohmv1.Share)) cellstate.Revision {
	c.t.Helper()
	row := &cellstate.Share{}
	if q := c.Snapshot().Quota(a.Scope); q != nil {
		row = q.Share(a.Spender)
	}
	rec := cellstate.Record{Key: cellstate.ShareKey(a), Read: row.Revision}
	record := cellstate.NewShare(a)
	if row.Record != nil {
		record = proto.CloneOf(row.Record)
	}
	change(record)
	rec.Value = record
	return c.Put(rec)
}
