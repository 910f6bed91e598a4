package cellstate_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// holder is an instance in a table of TestDeal; amounts are cores.
type holder struct {
	used, granted, wants, next int64
	since                      int64
	dead                       bool
}

// dealt is a cell of a quota and its holders, and how the quota is to be dealt out.
func dealt(t *testing.T, limit int64, holders []holder) (*cellstate.Quota, cellstate.Deal) {
	t.Helper()
	cell := celltest.New(t, memstore.New())
	cell.Node(celltest.Node{Name: "n1", CPU: 1_000_000})
	for i, h := range holders {
		cell.Job(celltest.Job{Name: fmt.Sprint("j", i), CPU: 1000 * h.used})
		if h.used > 0 {
			s := cell.Snapshot()
			txn := celltest.Txn(s, cellstate.Incremental, claim(s, fmt.Sprint("j", i), 0, "n1"))
			txn.Instance = fmt.Sprint("i", i)
			cell.Commit(s, txn)
		}
	}
	scope := celltest.Namespace("default")
	cell.Quota(scope, celltest.CPU(1000*limit))
	for i, h := range holders {
		instance := fmt.Sprint("i", i)
		cell.ShareOf(celltest.Account(scope, instance), func(r *ohmv1.Share) {
			r.Granted, r.Wanted, r.Next, r.Since = celltest.CPU(1000*h.granted), celltest.CPU(1000*h.wants), celltest.CPU(1000*h.next), h.since
		})
		if !h.dead {
			cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", instance), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: instance}})
		}
	}
	s := cell.Snapshot()
	return s.Quota(scope), s.Deal(s.Quota(scope))
}

func TestDeal(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   int64
		holders []holder
		due     []int64
		lacks   []bool
	}{
		{"nobody wants", 10, []holder{{used: 2, granted: 5}, {granted: 5}}, []int64{2, 0}, []bool{false, false}},
		{"there is enough", 10, []holder{{wants: 4, next: 1}, {wants: 6, next: 2}}, []int64{4, 6}, []bool{false, false}},
		{"two want more than half", 10, []holder{{wants: 100, next: 1, since: 1}, {wants: 100, next: 1, since: 2}}, []int64{5, 5}, []bool{true, true}},
		{"one wants little", 10, []holder{{wants: 100, next: 1}, {wants: 2, next: 1}}, []int64{8, 2}, []bool{true, false}},
		{"one has more than its half", 10, []holder{{used: 8, granted: 10, wants: 5, next: 1}, {wants: 5, next: 1}}, []int64{8, 2}, []bool{true, true}},
		{"one has all", 10, []holder{{used: 10, granted: 10, wants: 5, next: 1}, {wants: 5, next: 1}}, []int64{10, 0}, []bool{true, true}},
		{"a gang among idle shares", 10, []holder{{granted: 5}, {granted: 5, wants: 8, next: 8}}, []int64{0, 8}, []bool{false, true}},
		{"a gang comes before small ones that have more", 10, []holder{{used: 3, granted: 10, wants: 50, next: 1}, {wants: 8, next: 8}}, []int64{3, 0}, []bool{true, true}},
		{"a gang whose room has come together", 10, []holder{{used: 2, granted: 2, wants: 50, next: 1}, {wants: 8, next: 8}}, []int64{2, 8}, []bool{true, false}},
		{"two gangs: who has waited longer", 10, []holder{{granted: 5, wants: 8, next: 8, since: 7}, {granted: 5, wants: 8, next: 8, since: 3}}, []int64{0, 8}, []bool{true, true}},
		{"more than the quota is never served, and keeps nobody off", 10, []holder{{wants: 11, next: 11}, {wants: 4, next: 1}}, []int64{0, 4}, []bool{false, false}},
		{"the dead want nothing", 10, []holder{{used: 1, granted: 9, wants: 8, next: 1, dead: true}, {wants: 9, next: 1}}, []int64{1, 9}, []bool{false, true}},
		{"more is used than there is", 4, []holder{{used: 6, granted: 0, wants: 1, next: 1}, {wants: 1, next: 1}}, []int64{6, 0}, []bool{true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, deal := dealt(t, c.limit, c.holders)
			var due []int64
			sum, over := int64(0), false
			for i, d := range deal.Due {
				due = append(due, d[0]/1000)
				sum += d[0]
				over = over || q.Used()[0] > 1000*c.limit
				if d[0] < q.Shares[i].Used[0] {
					t.Errorf("%d is due less than it uses", i)
				}
			}
			if !slices.Equal(due, c.due) || !slices.Equal(deal.Lacks, c.lacks) {
				t.Errorf("due %v, lacks %v; want %v, %v", due, deal.Lacks, c.due, c.lacks)
			}
			if sum > 1000*c.limit && !over {
				t.Errorf("%d are due, of %d", sum, 1000*c.limit)
			}
		})
	}
}

// Whatever is wanted, in few steps, and never more than there is.
func TestDealOfManyUnits(t *testing.T) {
	_, deal := dealt(t, 100_000, []holder{{wants: 90_000, next: 1}, {wants: 90_000, next: 7}, {used: 10, granted: 10, wants: 20, next: 3}})
	sum := int64(0)
	for _, d := range deal.Due {
		sum += d[0] / 1000
	}
	if sum < 99_990 || sum > 100_000 || deal.Due[2][0] != 30_000 {
		t.Errorf("due %v", deal.Due)
	}
}

func TestQuotaKeys(t *testing.T) {
	scope := cellstate.Scope{Kind: cellstate.SchedulerScope, Name: "batch"}
	account := celltest.Account(scope, "one")
	if k := cellstate.QuotaKey(scope); k != "quotas/scheduler/batch" || k.Parse().Kind != cellstate.KindQuota || k.Parse().Scope != scope {
		t.Error(k, k.Parse())
	}
	if k := cellstate.ShareKey(account); k != "shares/scheduler/batch/batch/one" || k.Parse().Kind != cellstate.KindShare || k.Parse().Scope != scope || k.Parse().Spender != account.Spender {
		t.Error(k, k.Parse())
	}
}
