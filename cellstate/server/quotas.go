package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/names"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func (s *cell) ListQuotas(ctx context.Context, _ *ohmv1.ListQuotasRequest) (*ohmv1.ListQuotasResponse, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	resp := &ohmv1.ListQuotasResponse{}
	for q := range snapshot.Quotas() {
		if q.Record != nil {
			resp.Quotas = append(resp.Quotas, quotaView(snapshot, q))
		}
	}
	resp.Quotas = append(resp.Quotas, sharing(snapshot)...)
	return resp, nil
}

func (s *cell) GetQuota(ctx context.Context, req *ohmv1.GetQuotaRequest) (*ohmv1.QuotaView, error) {
	scope, err := scopeOf(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return oneQuota(snapshot, scope)
}

// SetQuota sets limit and weight, whole: what it does not name is not limited, or 1.
func (s *cell) SetQuota(ctx context.Context, req *ohmv1.SetQuotaRequest) (*ohmv1.QuotaView, error) {
	scope, err := scopeOf(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	if err := checkWeight(scope, req.GetWeight()); err != nil {
		return nil, err
	}
	if err := checkLimit(req.GetLimit(), req.GetWeight() > 0); err != nil {
		return nil, err
	}
	now := timestamppb.Now()
	snapshot, err := s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		if scope.Kind == cellstate.SchedulerScope && at.Scheduler(scope.Name) == nil {
			return w, refuse(cellstate.ErrNotFound, "scheduler %s not found: it has never been registered", scope.Name)
		}
		w, _ = cellstate.QuotaWrite(at, scope, &ohmv1.Quota{Limit: proto.CloneOf(req.GetLimit()), Weight: req.GetWeight(), Time: now})
		return w, nil
	})
	if err != nil {
		return nil, err
	}
	return oneQuota(snapshot, scope)
}

func (s *cell) DeleteQuota(ctx context.Context, req *ohmv1.DeleteQuotaRequest) (*ohmv1.DeleteQuotaResponse, error) {
	scope, err := scopeOf(req.GetKind(), req.GetName())
	if err != nil {
		return nil, err
	}
	removed := false
	_, err = s.write(ctx, func(at *cellstate.Snapshot) (w cellstate.Write, err error) {
		q := at.Quota(scope)
		switch {
		case q != nil && q.Record != nil:
			removed = true
			return cellstate.QuotaRemoval(q), nil
		case removed: // by a request of this call whose reply was lost
			return cellstate.Write{Guards: []cellstate.Guard{{Key: cellstate.QuotaKey(scope)}}}, nil
		}
		return w, noQuota(scope)
	})
	if err != nil {
		return nil, err
	}
	return &ohmv1.DeleteQuotaResponse{}, nil
}

func scopeOf(kind, name string) (cellstate.Scope, error) {
	if kind != cellstate.NamespaceScope && kind != cellstate.SchedulerScope {
		return cellstate.Scope{}, refuse(errInvalid, "a quota is over a namespace or a scheduler, not over a %q", kind)
	}
	if err := names.Check("name of the "+kind, name); err != nil {
		return cellstate.Scope{}, refuse(errInvalid, "%v", err)
	}
	return cellstate.Scope{Kind: kind, Name: name}, nil
}

// mostWeight is more than anybody needs, and far from what a sum could not hold.
const mostWeight = 1_000_000

func checkWeight(scope cellstate.Scope, weight int32) error {
	switch {
	case weight < 0 || weight > mostWeight:
		return refuse(errInvalid, "a weight of %d is not between 1 and %d", weight, mostWeight)
	case weight > 0 && scope.Kind != cellstate.NamespaceScope:
		return refuse(errInvalid, "a weight is a namespace's: schedulers have none")
	}
	return nil
}

// checkLimit refuses what limits nothing and is not there for its weight, and amounts that
// nobody means.
func checkLimit(limit *ohmv1.Amounts, weighs bool) error {
	all := cellstate.LimitOf(limit)
	if all == cellstate.LimitOf(nil) {
		if weighs {
			return nil
		}
		return refuse(errInvalid, "a quota limits at least one of cpu, memory, disk and gpus, or gives a weight")
	}
	most := cellstate.Amounts{resource.MaxCPU, resource.MaxBytes, resource.MaxBytes, resource.MaxCPU}
	for d, given := range []*int64{limit.CpuMilli, limit.MemoryBytes, limit.DiskBytes, limit.GpuMilli} {
		if given != nil && (*given < 0 || *given > most[d]) {
			return refuse(errInvalid, "a quota of %s %s is not between 0 and %s", cellstate.AmountText(d, *given), cellstate.DimensionName(d), cellstate.AmountText(d, most[d]))
		}
	}
	return nil
}

// sharing are the namespaces that share the cell by weights and have no quota or weight of
// their own.
func sharing(s *cellstate.Snapshot) (views []*ohmv1.QuotaView) {
	f := s.Fair()
	if f == nil {
		return nil
	}
	for q := range f.Queues() {
		if own := s.Quota(cellstate.Scope{Kind: cellstate.NamespaceScope, Name: q.Namespace}); own == nil || own.Record == nil {
			views = append(views, &ohmv1.QuotaView{Kind: cellstate.NamespaceScope, Name: q.Namespace, Limit: &ohmv1.Amounts{}, Used: q.Used.Proto(), Granted: &ohmv1.Amounts{}, Fair: f.View(q.Namespace)})
		}
	}
	return views
}

func noQuota(scope cellstate.Scope) error {
	return refuse(cellstate.ErrNotFound, "%s has no quota", scope)
}

func oneQuota(s *cellstate.Snapshot, scope cellstate.Scope) (*ohmv1.QuotaView, error) {
	if q := s.Quota(scope); q != nil && q.Record != nil {
		return quotaView(s, q), nil
	}
	return nil, noQuota(scope)
}

// quotaView shows of amounts what is limited, and what is more than nothing.
func quotaView(s *cellstate.Snapshot, q *cellstate.Quota) *ohmv1.QuotaView {
	shown := func(a cellstate.Amounts) *ohmv1.Amounts {
		p := a.Proto()
		for d, to := range []**int64{&p.CpuMilli, &p.MemoryBytes, &p.DiskBytes, &p.GpuMilli} {
			if q.Limit()[d] != cellstate.Unlimited && *to == nil {
				*to = new(int64)
			}
		}
		return p
	}
	v := &ohmv1.QuotaView{
		Kind: q.Scope.Kind, Name: q.Scope.Name, Limit: q.Record.GetLimit(), Since: q.Record.GetTime(),
		Granted: shown(q.Granted()), Used: shown(q.Used()),
	}
	if f := s.Fair(); f != nil && q.Scope.Kind == cellstate.NamespaceScope {
		v.Fair = f.View(q.Scope.Name)
	}
	for _, share := range q.Shares {
		state := schedulerNotSeen
		if s.Registered(share.Spender) {
			state = schedulerLive
		}
		v.Shares = append(v.Shares, &ohmv1.ShareView{
			Scheduler: share.Scheduler, Instance: share.Instance, State: state,
			Granted: shown(share.Granted()), Used: shown(share.Used), Wanted: shown(cellstate.AmountsOf(share.Record.GetWanted())),
		})
	}
	return v
}
