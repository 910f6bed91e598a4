package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/pkg/near"
	"github.com/ohmcell/ohm/pkg/resource"
)

func quotaCommand(a *app) *cobra.Command {
	return noun("quota", "Bound what a namespace or a scheduler may use",
		`A quota bounds what all live tasks of a namespace, or of all jobs of a scheduler, take
together. It is part of every commit: no task is placed beyond it. What waits for a
quota says so in `+"`ohm explain`"+`.`,
		"  ohm quota set prod --cpu 10 --memory 64Gi\n  ohm quota list",
		quotaSetCommand(a), quotaGetCommand(a), quotaListCommand(a), quotaDeleteCommand(a))
}

// scopeFlag says that the name is a scheduler's.
func scopeFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("scheduler", false, "NAME is a scheduler, not a namespace")
}

func scopeKind(scheduler bool) string {
	if scheduler {
		return "scheduler"
	}
	return "namespace"
}

func quotaSetCommand(a *app) *cobra.Command {
	var cpu, memory, disk, gpus string
	var weight int32
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set the quota of a namespace or a scheduler",
		Long: `Set the quota of a namespace or, with --scheduler, the limit of a scheduler over all
namespaces. What is not named is not limited: a quota is always set whole. It is in
force from the moment it is stored. Where more is in use already nothing is stopped,
but nothing starts before it fits.

With --weight, alone or beside limits, the namespace shares the cell with all others by
weights: see docs/fairness.md. One without a weight of its own has 1.`,
		Example: `  ohm quota set prod --cpu 10 --memory 64Gi --gpus 4
  ohm quota set tests --gpus 0             # no GPU at all; anything else
  ohm quota set batch --scheduler --cpu 500
  ohm quota set prod --weight 3            # three times what others have is due to it`,
		Args: named("the name of a namespace or a scheduler", 1, 1),
	}
	scheduler := scopeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		limit := &ohmv1.Amounts{}
		for _, amount := range []struct {
			flag, text string
			parse      func(string) (int64, error)
			to         **int64
		}{
			{"cpu", cpu, resource.ParseCPU, &limit.CpuMilli},
			{"memory", memory, resource.ParseBytes, &limit.MemoryBytes},
			{"disk", disk, resource.ParseBytes, &limit.DiskBytes},
			{"gpus", gpus, resource.ParseCPU, &limit.GpuMilli},
		} {
			if !cmd.Flags().Changed(amount.flag) {
				continue
			}
			n, err := amount.parse(amount.text)
			if err != nil {
				return refuse("--%s: %v", amount.flag, err)
			}
			*amount.to = proto.Int64(n)
		}
		switch {
		case cmd.Flags().Changed("weight") && weight < 1:
			return refuse("--weight: %d is less than 1", weight)
		case proto.Size(limit) == 0 && weight == 0:
			return refuse("a quota limits at least one of --cpu, --memory, --disk and --gpus, or gives a --weight; `ohm quota delete` removes one")
		}
		return a.setQuota(cmd.Context(), &ohmv1.SetQuotaRequest{Kind: scopeKind(*scheduler), Name: args[0], Limit: limit, Weight: weight})
	}
	cmd.Flags().StringVar(&cpu, "cpu", "", "cores, such as 500m or 10")
	cmd.Flags().StringVar(&memory, "memory", "", "memory, such as 64Gi")
	cmd.Flags().StringVar(&disk, "disk", "", "disk, such as 1Ti")
	cmd.Flags().StringVar(&gpus, "gpus", "", "GPUs, such as 4; parts of one count as parts: 500m")
	cmd.Flags().Int32Var(&weight, "weight", 0, "of a namespace among those that share the cell, 1 to 1000000")
	outputFlag(cmd, listFormats()...)
	return cmd
}

func (a *app) setQuota(ctx context.Context, req *ohmv1.SetQuotaRequest) error {
	c := a.cell()
	q, err := c.cell.SetQuota(ctx, req)
	if err != nil {
		if req.Kind == "scheduler" && notFound(err) {
			return failf(exitNotFound, "`ohm scheduler list` lists all schedulers", "there is no scheduler %q", req.Name)
		}
		return err
	}
	return a.show(view{json: one(q), names: namesOf([]*ohmv1.QuotaView{q}, quotaName), table: func(p *printer) { quotaTable(p, []*ohmv1.QuotaView{q}) }})
}

func quotaGetCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a quota and who uses how much of it",
		Long: `Show the quota of a namespace or, with --scheduler, the limit of a scheduler: how much
of it is in use, counted from the live tasks, and the share that each scheduler
instance holds of it. What is granted and not used is given back when another one
wants it.`,
		Example: "  ohm quota get prod\n  ohm quota get batch --scheduler -o json",
		Args:    named("the name of a namespace or a scheduler", 1, 1),
	}
	scheduler := scopeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := a.cell()
		kind := scopeKind(*scheduler)
		q, err := c.cell.GetQuota(cmd.Context(), &ohmv1.GetQuotaRequest{Kind: kind, Name: args[0]})
		if err != nil {
			return a.unknownQuota(cmd.Context(), c, err, kind, args[0])
		}
		return a.show(view{json: one(q), names: namesOf([]*ohmv1.QuotaView{q}, quotaName), table: func(p *printer) { quotaDetail(p, q) }})
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func quotaListCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List quotas",
		Long: `List the quotas of namespaces and the limits of schedulers, with what is in use. While
any namespace has a weight, all that hold something or have work are listed: with their
weight, the part of the cell that they hold, what is due to them and, of what they hold,
what is borrowed.`,
		Example: "  ohm quota list",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := a.cell()
			list, err := c.cell.ListQuotas(cmd.Context(), &ohmv1.ListQuotasRequest{})
			if err != nil {
				return err
			}
			if len(list.Quotas) == 0 {
				a.note("no quotas")
				if a.output != "json" && a.output != "yaml" {
					return nil
				}
			}
			return a.show(view{json: many(list.Quotas), names: namesOf(list.Quotas, quotaName), table: func(p *printer) { quotaTable(p, list.Quotas) }})
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

func quotaDeleteCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Remove a quota",
		Long:    "Remove the quota of a namespace or, with --scheduler, the limit of a scheduler.",
		Example: "  ohm quota delete prod",
		Args:    named("the name of a namespace or a scheduler", 1, 1),
	}
	scheduler := scopeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := a.cell()
		kind := scopeKind(*scheduler)
		if _, err := c.cell.DeleteQuota(cmd.Context(), &ohmv1.DeleteQuotaRequest{Kind: kind, Name: args[0]}); err != nil {
			return a.unknownQuota(cmd.Context(), c, err, kind, args[0])
		}
		a.note("the quota of %s %s is removed", kind, args[0])
		return nil
	}
	return cmd
}

// unknownQuota words the server's answer that there is no such quota.
func (a *app) unknownQuota(ctx context.Context, c *cell, err error, kind, name string) error {
	if !notFound(err) {
		return err
	}
	list, listErr := c.cell.ListQuotas(ctx, &ohmv1.ListQuotasRequest{})
	if listErr != nil {
		return err
	}
	next := "`ohm quota list` lists all quotas"
	var names []string
	for _, q := range list.Quotas {
		switch {
		case q.Kind == kind:
			names = append(names, q.Name)
		case q.Name == name:
			return failf(exitNotFound, fmt.Sprintf("%s %s has one", q.Kind, q.Name), "%s %q has no quota", kind, name)
		}
	}
	if meant := near.Of(name, names); meant != "" {
		next = fmt.Sprintf("did you mean %q?", meant)
	}
	return failf(exitNotFound, next, "%s %q has no quota", kind, name)
}

func quotaName(q *ohmv1.QuotaView) string { return q.Kind + "/" + q.Name }

func quotaTable(p *printer, quotas []*ohmv1.QuotaView) {
	type row = *ohmv1.QuotaView
	fair := slices.ContainsFunc(quotas, func(q row) bool { return q.Fair != nil })
	part := func(d int) func(row) string {
		return func(q row) string { return ofLimit(q.Used, q.Limit, d) }
	}
	columns(p, quotas,
		column[row]{title: "OVER", cell: row.GetKind},
		column[row]{title: "NAME", cell: row.GetName},
		column[row]{title: "CPU", cell: part(0)},
		column[row]{title: "MEMORY", cell: part(1)},
		column[row]{title: "DISK", cell: part(2)},
		column[row]{title: "GPUS", cell: part(3)},
		column[row]{title: "WEIGHT", cell: weightText, skip: !fair},
		column[row]{title: "HOLDS", cell: fairPart((*ohmv1.FairShare).GetShare), skip: !fair},
		column[row]{title: "DUE", cell: fairPart((*ohmv1.FairShare).GetDue), skip: !fair},
		column[row]{title: "BORROWED", cell: fairPart((*ohmv1.FairShare).GetBorrowed), skip: !fair},
		column[row]{title: "OF LATE", cell: fairPart((*ohmv1.FairShare).GetAverage), skip: !fair || !p.wide},
		column[row]{title: "GRANTED", cell: func(q row) string { return amountsText(q.Granted, q.Limit) }, skip: !p.wide},
		column[row]{title: "SINCE", cell: func(q row) string { return p.app.ago(q.Since) }},
	)
}

func quotaDetail(p *printer, q *ohmv1.QuotaView) {
	p.pairs(
		[2]string{q.Kind, q.Name},
		[2]string{"limit", amountsText(q.Limit, q.Limit)}, [2]string{"used", amountsText(q.Used, q.Limit)},
		[2]string{"granted", amountsText(q.Granted, q.Limit)}, [2]string{"since", p.app.ago(q.Since)},
	)
	if q.Fair != nil {
		p.pairs([2]string{"weight", weightText(q)}, [2]string{"fairness", q.Fair.Text})
	}
	if len(q.Shares) == 0 {
		return
	}
	type row = *ohmv1.ShareView
	p.heading("shares:")
	columns(p, q.Shares,
		column[row]{title: "SCHEDULER", cell: row.GetScheduler},
		column[row]{title: "INSTANCE", cell: row.GetInstance},
		column[row]{title: "STATE", cell: row.GetState},
		column[row]{title: "USED", cell: func(s row) string { return amountsText(s.Used, q.Limit) }},
		column[row]{title: "GRANTED", cell: func(s row) string { return amountsText(s.Granted, q.Limit) }},
		column[row]{title: "WANTED", cell: func(s row) string { return amountsText(s.Wanted, q.Limit) }},
	)
}

func weightText(q *ohmv1.QuotaView) string {
	if q.Fair == nil {
		return ""
	}
	return fmt.Sprint(q.Fair.Weight)
}

// fairPart is a part of the cell as people write it: "37%".
func fairPart(of func(*ohmv1.FairShare) float64) func(*ohmv1.QuotaView) string {
	return func(q *ohmv1.QuotaView) string {
		if q.Fair == nil {
			return ""
		}
		return fmt.Sprintf("%.0f%%", 100*of(q.Fair))
	}
}

// amountNames are the dimensions in the order of amountAt.
func amountNames() []string { return []string{"cpu", "memory", "disk", "gpus"} }

// amountAt is one amount for people; empty if it is absent.
func amountAt(a *ohmv1.Amounts, d int) string {
	amount := []*int64{a.CpuMilli, a.MemoryBytes, a.DiskBytes, a.GpuMilli}[d]
	switch {
	case amount == nil:
		return ""
	case d == 1 || d == 2:
		return resource.RoundBytes(*amount)
	}
	return resource.FormatCPU(*amount)
}

// ofLimit is what is used of what is limited: "3/10"; empty if it is not limited.
func ofLimit(used, limit *ohmv1.Amounts, d int) string {
	most := amountAt(limit, d)
	if most == "" {
		return ""
	}
	return amountAt(used, d) + "/" + most
}

// amountsText is what there is of the dimensions that are limited: "cpu 10, gpus 4".
func amountsText(a, limit *ohmv1.Amounts) string {
	var words []string
	for d, name := range amountNames() {
		if amountAt(limit, d) != "" {
			words = append(words, name+" "+amountAt(a, d))
		}
	}
	return strings.Join(words, ", ")
}
