package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func storeCommand(a *app) *cobra.Command {
	return noun("store", "See how the cell's store fares, and cure it",
		"The store is the etcd that holds the cell's state. A full one takes no writes: running tasks and reads go on.",
		"  ohm store doctor\n  ohm store doctor --cure",
		storeDoctorCommand(a), storeRenewCommand(a))
}

func storeRenewCommand(a *app) *cobra.Command {
	p := &part{a: a}
	cmd := &cobra.Command{
		Use:   "renew",
		Short: "Make a restored store known as another one",
		Long: `Give a store that was restored from a backup a new incarnation, after which whoever
knew it before loads it anew and nothing that they still had under way can apply.
Revisions come again after a restore, so without it they would take old for new.

Do it once etcd has been restored and before anything of the cell uses it.`,
		Example: "  ohm store renew --etcd 10.0.0.1:2379",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(p.store.Endpoints) == 0 {
				return refuse("give --etcd, the address of the restored store")
			}
			incarnation, err := p.store.Renew(cmd.Context())
			if err != nil {
				return storeFault(err)
			}
			fmt.Fprintln(a.stdout, incarnation)
			return nil
		},
	}
	p.etcdFlags(cmd.Flags())
	return cmd
}

func storeDoctorCommand(a *app) *cobra.Command {
	p := &part{a: a}
	var cure bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show what is wrong with the store, and cure it",
		Long: `Show how large the store is, what of it is in use, its quota, its alarms, the history
that is kept and its members; say what is wrong, and which steps cure it. It exits
with 1 if something is wrong.

With --cure it does the steps: it forgets the store's history, makes each member give
back what is free in its file (a member answers nobody meanwhile, for some seconds for
each GiB), and ends the alarm of a full store. No process has to be started again.

It asks the server at --address, or with --etcd the store itself.`,
		Example: `  ohm store doctor
  ohm store doctor --cure
  ohm store doctor --etcd 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := a.doctor(p)
			if err != nil {
				return err
			}
			defer d.close()
			if cure {
				if err := d.cure(cmd.Context(), func(s *ohmv1.StoreStep) { a.note("%s", stepText(s)) }); err != nil {
					return err
				}
			}
			s, err := d.status(cmd.Context())
			if err != nil {
				return err
			}
			return a.showDiagnosis(s, cure)
		},
	}
	f := cmd.Flags()
	p.etcdFlags(f)
	f.BoolVar(&cure, "cure", false, "do the steps that give a full store its room back")
	outputFlag(cmd, "table", "wide", "json", "yaml")
	return cmd
}

// doctor speaks with a server, or with the store itself.
type doctor struct {
	status func(context.Context) (*ohmv1.StoreStatusResponse, error)
	cure   func(context.Context, func(*ohmv1.StoreStep)) error
	close  func() error
}

func (a *app) doctor(p *part) (doctor, error) {
	if len(p.store.Endpoints) > 0 {
		carer, closeIt, err := p.store.Carer()
		if err != nil {
			return doctor{}, refuse("%v", err)
		}
		status := func(ctx context.Context) (*ohmv1.StoreStatusResponse, error) {
			s, err := carer.Status(ctx)
			return s, storeFault(err)
		}
		cure := func(ctx context.Context, told func(*ohmv1.StoreStep)) error {
			return storeFault(carer.Cure(ctx, told))
		}
		return doctor{status, cure, closeIt}, nil
	}
	c := a.cell()
	status := func(ctx context.Context) (*ohmv1.StoreStatusResponse, error) {
		return c.cell.StoreStatus(ctx, &ohmv1.StoreStatusRequest{})
	}
	cure := func(ctx context.Context, told func(*ohmv1.StoreStep)) error {
		steps, err := c.cell.CureStore(ctx, &ohmv1.CureStoreRequest{})
		for err == nil {
			var step *ohmv1.StoreStep
			if step, err = steps.Recv(); err == nil {
				told(step)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	return doctor{status, cure, func() error { return nil }}, nil
}

// storeFault is an error of the store itself, as its reader sees it.
func storeFault(err error) error {
	if errors.Is(err, cellstate.ErrUnreachable) {
		return failf(exitUnreachable, "check --etcd", "%v", err)
	}
	return err
}

func stepText(s *ohmv1.StoreStep) string {
	what := s.Step
	if s.Member != "" {
		what += " " + s.Member
	}
	return fmt.Sprintf("%s: %s (%s)", what, s.Detail, time.Duration(s.Milliseconds)*time.Millisecond)
}

func (a *app) showDiagnosis(s *ohmv1.StoreStatusResponse, cured bool) error {
	if err := a.show(view{json: one(s), table: func(p *printer) { diagnosis(p, s, cured) }}); err != nil {
		return err
	}
	if n := len(s.Findings); n > 0 {
		return failf(exitFailed, "", "something is wrong with the store: %s", plural(n, "finding"))
	}
	return nil
}

func diagnosis(p *printer, s *ohmv1.StoreStatusResponse, cured bool) {
	type row = *ohmv1.StoreMember
	size := func(n func(row) int64) func(row) string {
		return func(m row) string {
			if m.Error != "" || n(m) == 0 {
				return ""
			}
			return resource.RoundBytes(n(m))
		}
	}
	columns(p, s.Members,
		column[row]{title: "MEMBER", cell: row.GetName},
		column[row]{title: "FILE", cell: size(row.GetFileBytes)},
		column[row]{title: "IN USE", cell: size(row.GetInUseBytes)},
		column[row]{title: "QUOTA", cell: size(row.GetQuotaBytes)},
		column[row]{title: "FILLED", cell: func(m row) string {
			if m.Error != "" || m.QuotaBytes == 0 {
				return ""
			}
			return fmt.Sprintf("%d%%", cellstate.Size{File: m.FileBytes, Quota: m.QuotaBytes}.Filled())
		}},
		column[row]{title: "LEADER", cell: func(m row) string {
			if m.Leader {
				return "yes"
			}
			return ""
		}},
		column[row]{title: "VERSION", cell: row.GetVersion},
		column[row]{title: "ENDPOINT", cell: row.GetEndpoint, skip: !p.wide},
		column[row]{title: "ALARMS", cell: func(m row) string { return strings.Join(m.Alarms, ", ") }},
	)
	p.linef("history: revisions %d to %d", s.HistoryFrom, s.Revision)
	if len(s.Findings) == 0 {
		p.linef("nothing is wrong")
		return
	}
	p.heading("findings:")
	var endpoints []string
	for _, f := range s.Findings {
		p.linef("  %s", f)
	}
	for _, m := range s.Members {
		endpoints = append(endpoints, m.Endpoint)
	}
	if cured {
		return
	}
	etcdctl := "  etcdctl --endpoints " + strings.Join(endpoints, ",") + " "
	p.heading("the cure, which is `ohm store doctor --cure`, or these steps one after the other:")
	p.linef("%scompaction --physical %d", etcdctl, s.Revision)
	p.linef("%sdefrag --command-timeout 10m", etcdctl)
	p.linef("%salarm disarm", etcdctl)
}
