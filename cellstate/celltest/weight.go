package celltest

import (
	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Weigh gives a namespace a weight, and limits nothing.
func (c *Cell) Weigh(namespace string, weight int32) cellstate.Revision {
	c.t.Helper()
	w, _ := cellstate.QuotaWrite(c.Snapshot(), Namespace(namespace), &ohmv1.Quota{Limit: &ohmv1.Amounts{}, Weight: weight})
	return c.Write(w)
}
