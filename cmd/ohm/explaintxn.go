package main

import (
	"context"
	"fmt"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func (a *app) explainTxn(ctx context.Context, id string) error {
	c := a.cell()
	d, err := c.insight.ExplainTxn(ctx, &ohmv1.GetTxnRequest{Transaction: id})
	if err != nil {
		return err
	}
	return a.show(view{json: one(d), table: func(p *printer) { decision(p, d) }})
}

func decision(p *printer, d *ohmv1.Decision) {
	if d.Message != "" {
		p.linef("%s", d.Message)
	}
	outcome := d.Outcome
	if d.Revision > 0 {
		outcome += fmt.Sprintf(", at revision %d", d.Revision)
	}
	seed := ""
	if d.Seed > 0 {
		seed = fmt.Sprint(d.Seed)
	}
	p.pairs(
		[2]string{"transaction", d.Transaction}, [2]string{"scheduler", d.Scheduler}, [2]string{"instance", d.Instance},
		[2]string{"mode", d.Mode}, [2]string{"decided", p.app.ago(d.Time)}, [2]string{"snapshot", number(d.SnapshotRevision)},
		[2]string{"seed", seed}, [2]string{"claims", number(d.Claims)}, [2]string{"outcome", outcome}, [2]string{"known from", d.Source},
	)
	if len(d.Groups) > 0 && d.Source == "log" {
		type row = *ohmv1.GroupDecision
		p.heading("chosen among:")
		columns(p, d.Groups,
			column[row]{title: "GROUP", cell: func(g row) string { return g.Job + "/" + g.Group }},
			column[row]{title: "CLAIMS", cell: func(g row) string { return fmt.Sprint(g.Claims) }},
			column[row]{title: "NODES", cell: func(g row) string { return number(g.Nodes) }},
			column[row]{title: "CONSIDERED", cell: func(g row) string {
				if g.Nodes == 0 {
					return "not told"
				}
				return fmt.Sprint(g.Considered)
			}},
			column[row]{title: "IN FLIGHT", cell: func(g row) string { return number(g.InFlight) }},
			column[row]{title: "SCORED BY", cell: row.GetScoredBy},
			column[row]{title: "BEST FOR THE FIRST TASK", cell: func(g row) string {
				var parts []string
				for _, n := range g.Best {
					parts = append(parts, fmt.Sprintf("%s (%.1f)", n.Node, n.Score))
				}
				return strings.Join(parts, ", ")
			}},
		)
	}
	if len(d.Chosen) > 0 {
		type row = *ohmv1.ChosenNode
		p.heading("chosen:")
		columns(p, d.Chosen,
			column[row]{title: "TASK", cell: row.GetTask},
			column[row]{title: "ATTEMPT", cell: func(c row) string { return number(c.Attempt) }},
			column[row]{title: "NODE", cell: row.GetNode},
			column[row]{title: "GPUS", cell: func(c row) string { return shares(c.Gpus) }},
			column[row]{title: "EVICTS", cell: func(c row) string { return strings.Join(c.Victims, ", ") }},
		)
		if d.MoreChosen > 0 {
			p.linef("and %d more", d.MoreChosen)
		}
	}
	if len(d.Lost) > 0 {
		type row = *ohmv1.LostClaim
		p.heading("lost:")
		columns(p, d.Lost,
			column[row]{title: "TASK", cell: row.GetTask},
			column[row]{title: "NODE", cell: row.GetNode},
			column[row]{title: "REASON", cell: row.GetReason},
			column[row]{title: "OF", cell: row.GetDimension},
			column[row]{title: "WANTED", cell: row.GetWanted},
			column[row]{title: "FREE", cell: row.GetFree},
			column[row]{title: "TO", cell: row.GetWinner},
			column[row]{title: "OF SCHEDULER", cell: row.GetWinnerScheduler},
		)
	}
}
