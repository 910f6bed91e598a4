package main

import (
	"context"
	"fmt"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func (a *app) explainNode(ctx context.Context, job, node string) error {
	c := a.cell()
	answer, err := c.insight.ExplainNode(ctx, &ohmv1.ExplainNodeRequest{Namespace: a.namespace(), Job: job, Node: node})
	if err != nil {
		return a.unknownNode(ctx, c, a.unknownJobs(ctx, c, err, job), node)
	}
	return a.show(view{json: one(answer), table: func(p *printer) { nodeAnswer(p, answer) }})
}

func nodeAnswer(p *printer, n *ohmv1.NodeAnswer) {
	p.linef("scheduler %s of %s on node %s, by %s, on revision %d", n.Scheduler, n.Job, n.Node, n.Basis, n.SnapshotRevision)
	for _, g := range n.Groups {
		verdict := "does not fit"
		if g.Fits {
			verdict = "fits"
		}
		p.heading("group %s: %s; %s without a node", g.Group, verdict, plural(int(g.Waiting), "task"))
		if g.Message != "" {
			p.linef("%s", g.Message)
		}
		type row = *ohmv1.NodeRefusal
		if len(g.Refusals) > 0 {
			columns(p, g.Refusals,
				column[row]{title: "REASON", cell: row.GetReason},
				column[row]{title: "OF", cell: row.GetDimension},
				column[row]{title: "WANTED", cell: row.GetWanted},
				column[row]{title: "FREE", cell: row.GetFree},
				column[row]{title: "HAS", cell: row.GetHas},
				column[row]{title: "TAKEN BY", cell: func(r row) string { return takers(r, p.wide) }},
				column[row]{title: "DETAIL", cell: row.GetDetail},
			)
		}
		if g.GivesWay != "" {
			p.linef("gives way: %s", g.GivesWay)
		}
	}
}

// takersShown are named in a table; wide ones name all that the answer has.
const takersShown = 3

func takers(r *ohmv1.NodeRefusal, wide bool) string {
	var parts []string
	for i, t := range r.Takers {
		if i == takersShown && !wide {
			break
		}
		who := t.Task
		if t.Hold {
			who = "held for " + who
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", who, t.Takes))
	}
	if more := len(r.Takers) + int(r.MoreTakers) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}
