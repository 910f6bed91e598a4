package server_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestQuotas(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1"})
	w.submit(celltest.Job{Name: "a", Count: 3, CPU: 1000})
	w.cell.Place("a", 0, "n1") // before there is a quota
	set := func(kind, name string, limit *ohmv1.Amounts) (*ohmv1.QuotaView, error) {
		return w.info.SetQuota(w.ctx, &ohmv1.SetQuotaRequest{Kind: kind, Name: name, Limit: limit})
	}
	v, err := set("namespace", "default", &ohmv1.Amounts{CpuMilli: proto.Int64(2000), GpuMilli: proto.Int64(0)})
	if err != nil || v.GetLimit().GetCpuMilli() != 2000 || v.GetUsed().GetCpuMilli() != 1000 || v.GetUsed().MemoryBytes == nil || v.Used.GpuMilli == nil {
		t.Fatalf("%v, %v", v, err)
	}
	account := celltest.Account(celltest.Namespace("default"), "test")
	w.cell.Share(account, celltest.CPU(2000))
	w.cell.Place("a", 1, "n1")
	w.seen()
	v, err = w.info.GetQuota(w.ctx, &ohmv1.GetQuotaRequest{Kind: "namespace", Name: "default"})
	if err != nil || len(v.GetShares()) != 1 || v.GetGranted().GetCpuMilli() != 2000 {
		t.Fatalf("%v, %v", v, err)
	}
	if s := v.GetShares()[0]; s.GetState() != "NotSeen" || s.GetUsed().GetCpuMilli() != 2000 || s.GetInstance() != "test" || s.GetGranted().GetCpuMilli() != 2000 {
		t.Errorf("share %v", s)
	}
	// A lower one takes the shares back in the same revision; a higher one leaves them.
	granted := func() int64 { return w.cell.Snapshot().Quota(account.Scope).Granted()[0] }
	if _, err := set("namespace", "default", &ohmv1.Amounts{CpuMilli: proto.Int64(3000)}); err != nil || granted() != 2000 {
		t.Errorf("granted %d, %v", granted(), err)
	}
	if _, err := set("namespace", "default", &ohmv1.Amounts{CpuMilli: proto.Int64(1000)}); err != nil || granted() != 0 {
		t.Errorf("granted %d, %v", granted(), err)
	}
	if _, err := set("scheduler", "batch", &ohmv1.Amounts{MemoryBytes: proto.Int64(1 << 30)}); err != nil {
		t.Fatal(err)
	}
	list, err := w.info.ListQuotas(w.ctx, &ohmv1.ListQuotasRequest{})
	if err != nil || len(list.GetQuotas()) != 2 || list.GetQuotas()[1].GetName() != "batch" || list.GetQuotas()[1].GetUsed().GetMemoryBytes() != 2<<20 {
		t.Fatalf("%v, %v", list, err)
	}
	for range 2 { // the same again changes nothing
		at := w.cell.Snapshot().Quota(account.Scope).Revision
		if _, err := set("namespace", "default", &ohmv1.Amounts{CpuMilli: proto.Int64(1000)}); err != nil || w.cell.Snapshot().Quota(account.Scope).Revision != at {
			t.Error("set again:", err)
		}
	}
	remove := func(kind, name string) error {
		_, err := w.info.DeleteQuota(w.ctx, &ohmv1.DeleteQuotaRequest{Kind: kind, Name: name})
		return err
	}
	for _, name := range [][2]string{{"namespace", "default"}, {"scheduler", "batch"}} {
		if err := remove(name[0], name[1]); err != nil {
			t.Error(err)
		}
		wantCode(t, remove(name[0], name[1]), codes.NotFound)
	}
	if s := w.cell.Snapshot(); s.HasQuotas() {
		t.Error("something is left of the quotas")
	}
	w.until("the mirror knows", func(s *cellstate.Snapshot) bool { return !s.HasQuotas() })
}

func TestQuotasAreChecked(t *testing.T) {
	w := serve(t, nil)
	one := &ohmv1.Amounts{CpuMilli: proto.Int64(1000)}
	for _, c := range []struct {
		kind, name string
		limit      *ohmv1.Amounts
		want       codes.Code
	}{
		{"job", "a", one, codes.InvalidArgument},
		{"namespace", "A b", one, codes.InvalidArgument},
		{"namespace", "", one, codes.InvalidArgument},
		{"namespace", "a", nil, codes.InvalidArgument},
		{"namespace", "a", &ohmv1.Amounts{}, codes.InvalidArgument},
		{"namespace", "a", &ohmv1.Amounts{CpuMilli: proto.Int64(-1)}, codes.InvalidArgument},
		{"namespace", "a", &ohmv1.Amounts{MemoryBytes: proto.Int64(1 << 60)}, codes.InvalidArgument},
		{"scheduler", "nobody", one, codes.NotFound},
	} {
		_, err := w.info.SetQuota(w.ctx, &ohmv1.SetQuotaRequest{Kind: c.kind, Name: c.name, Limit: c.limit})
		wantCode(t, err, c.want)
	}
	_, err := w.info.GetQuota(w.ctx, &ohmv1.GetQuotaRequest{Kind: "namespace", Name: "a"})
	wantCode(t, err, codes.NotFound)
	if w.cell.Snapshot().HasQuotas() {
		t.Error("a quota was stored")
	}
}

// A weight alone limits nothing, and shows how all namespaces stand, also those without one.
func TestWeights(t *testing.T) {
	w := serve(t, nil)
	w.cell.Node(celltest.Node{Name: "n1", CPU: 4000})
	w.submit(celltest.Job{Name: "a", Count: 3, CPU: 1000})
	w.cell.Place("a", 0, "n1")
	w.seen()
	for _, c := range []struct {
		kind   string
		weight int32
	}{{"namespace", 0}, {"namespace", -1}, {"namespace", 2_000_000}, {"scheduler", 1}} {
		_, err := w.info.SetQuota(w.ctx, &ohmv1.SetQuotaRequest{Kind: c.kind, Name: "batch", Limit: &ohmv1.Amounts{}, Weight: c.weight})
		wantCode(t, err, codes.InvalidArgument)
	}
	v, err := w.info.SetQuota(w.ctx, &ohmv1.SetQuotaRequest{Kind: "namespace", Name: "prod", Limit: &ohmv1.Amounts{}, Weight: 3})
	if err != nil || v.GetFair().GetWeight() != 3 || v.GetFair().GetCode() != cellstate.FairBelow {
		t.Fatalf("%v, %v", v, err)
	}
	w.cell.Place("a", 1, "n1") // nobody needs a share of a quota that limits nothing
	w.seen()
	list, err := w.info.ListQuotas(w.ctx, &ohmv1.ListQuotasRequest{})
	if err != nil || len(list.GetQuotas()) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if q := list.GetQuotas()[1]; q.GetName() != "default" || q.GetSince() != nil || q.GetFair().GetWeight() != 1 || q.GetFair().GetShare() != 0.5 || q.GetUsed().GetCpuMilli() != 2000 {
		t.Errorf("%v", q)
	}
	e, err := w.insight.Explain(w.ctx, &ohmv1.GetJobRequest{Namespace: "default", Job: "a"})
	if err != nil || e.GetFair().GetPosition() != 1 || e.GetFair().GetDue() != 1 || e.GetFair().GetText() == "" {
		t.Errorf("%v, %v", e.GetFair(), err)
	}
}
