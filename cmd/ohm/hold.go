package main

import (
	"slices"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// holdTable prints room that is held: where, for whom, since when.
func holdTable(p *printer, holds []*ohmv1.Hold) {
	type row = *ohmv1.Hold
	reserves := slices.ContainsFunc(holds, row.GetReserves)
	columns(p, holds,
		column[row]{title: "NODE", cell: row.GetNode},
		column[row]{title: "FOR", cell: func(h row) string {
			if h.Slot == nil {
				return ""
			}
			return cellstate.SlotOf(h.Slot).Task()
		}},
		column[row]{title: "SCHEDULER", cell: row.GetScheduler},
		column[row]{title: "INSTANCE", cell: row.GetInstance, skip: !p.wide},
		column[row]{title: "TRANSACTION", cell: row.GetTxn},
		column[row]{title: "RESOURCES", cell: func(h row) string { return amounts(h.Resources) }},
		column[row]{title: "GPUS", cell: func(h row) string { return shares(h.Gpus) }},
		column[row]{title: "WAITS FOR", cell: func(h row) string {
			if h.Awaits == nil {
				return ""
			}
			return cellstate.SlotOf(h.Awaits).Task()
		}, skip: !reserves},
		column[row]{title: "EXPECTED", cell: func(h row) string {
			switch {
			case !h.Reserves:
				return ""
			case h.Starts == nil:
				return "unknown"
			}
			return p.app.expected(h.Starts)
		}, skip: !reserves},
		column[row]{title: "SINCE", cell: func(h row) string { return p.app.ago(h.Time) }},
	)
}
