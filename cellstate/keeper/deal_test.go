package keeper

import (
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// dealCell has a quota of 10 cores of which two registered instances want 8 each.
func dealCell(t *testing.T) (*celltest.Cell, *memstore.Store, cellstate.Scope) {
	store := memstore.New()
	cell, scope := celltest.New(t, store), celltest.Namespace("default")
	cell.Node(celltest.Node{Name: "n1", CPU: 100_000})
	cell.Quota(scope, celltest.CPU(10_000))
	for i, instance := range []string{"a", "b"} {
		cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", instance), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: instance}})
		cell.ShareOf(celltest.Account(scope, instance), func(r *ohmv1.Share) {
			r.Wanted, r.Next, r.Since = celltest.CPU(8000), celltest.CPU(8000), int64(1+i)
		})
	}
	return cell, store, scope
}

func granted(s *cellstate.Snapshot, scope cellstate.Scope) (of []int64) {
	for _, share := range s.Quota(scope).Shares {
		of = append(of, share.Granted()[0])
	}
	return of
}

// Of two raises that were worked out from the same state only one applies, whatever they
// raise: one may be a request of unknown fate.
func TestRaisesExcludeEachOther(t *testing.T) {
	cell, store, scope := dealCell(t)
	s := cell.Snapshot()
	first := raise(s, s.Quota(scope))
	late := cellstate.Write{Guards: first.Guards} // to the other one
	for _, r := range first.Records {
		if k := r.Key.Parse(); k.Kind == cellstate.KindShare {
			r.Key = cellstate.ShareKey(celltest.Account(scope, "b"))
			r.Read = s.Quota(scope).Share(celltest.Account(scope, "b").Spender).Revision
		}
		late.Records = append(late.Records, r)
	}
	for _, w := range []cellstate.Write{first, late} {
		if _, err := store.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	if got := granted(cell.Snapshot(), scope); got[0] != 8000 || got[1] != 0 {
		t.Errorf("granted %v", got)
	}
}

// What the dead have left falls to what they use, unless they have come back meanwhile.
func TestInherit(t *testing.T) {
	cell, store, scope := dealCell(t)
	account := celltest.Account(scope, "test") // it is not registered
	cell.Job(celltest.Job{Name: "j", CPU: 3000})
	cell.Share(account, celltest.CPU(5000))
	cell.Place("j", 0, "n1")
	s := cell.Snapshot()
	writes := inherit(s, s.Quota(scope))
	if len(writes) != 1 {
		t.Fatalf("%d writes", len(writes))
	}
	at := cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "test"), Value: &ohmv1.SchedulerInstance{Scheduler: "batch", Instance: "test"}})
	apply := func() {
		if _, err := store.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
	}
	share := func() *cellstate.Share { return cell.Snapshot().Quota(scope).Share(account.Spender) }
	if apply(); share().Granted()[0] != 5000 {
		t.Error("a share of the living was taken")
	}
	cell.Put(cellstate.Record{Key: cellstate.InstanceKey("batch", "test"), Read: at})
	if apply(); share().Granted()[0] != 3000 {
		t.Errorf("share %+v", share())
	}
	if s = cell.Snapshot(); len(inherit(s, s.Quota(scope))) != 0 {
		t.Error("it is taken again")
	}
}
