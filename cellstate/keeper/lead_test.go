package keeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestOneLeads(t *testing.T) {
	inHouse(t, func(h *house) {
		first, second := h.keeper("s1", Limits{}), h.keeper("s2", Limits{})
		stop := h.run(first)
		h.pass(time.Second)
		h.run(second)
		h.pass(time.Minute)
		if !first.Leads() || second.Leads() {
			t.Fatalf("leads: first %v, second %v", first.Leads(), second.Leads())
		}
		stop()
		h.pass(time.Second)
		if first.Leads() || !second.Leads() {
			t.Fatalf("after the first has stopped: first %v, second %v", first.Leads(), second.Leads())
		}
	})
}

func TestCollectors(t *testing.T) {
	inHouse(t, func(h *house) {
		k := h.keeper("s1", Limits{})
		registry := prometheus.NewRegistry()
		registry.MustRegister(k.Collectors()...)
		gauges := func() map[string]float64 {
			t.Helper()
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]float64{}
			for _, f := range families {
				all[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
			}
			return all
		}
		if got := fmt.Sprint(gauges()); got != "map[ohm_keeper_braking:0 ohm_keeper_leading:0 ohm_store_alarm_percent:0 ohm_store_bytes:0 ohm_store_file_bytes:0 ohm_store_quota_bytes:0]" {
			t.Error(got)
		}
		h.run(k)
		h.pass(time.Second)
		size, err := h.store.Size(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(gauges()); got != fmt.Sprintf("map[ohm_keeper_braking:0 ohm_keeper_leading:1 ohm_store_alarm_percent:0 ohm_store_bytes:%d ohm_store_file_bytes:%d ohm_store_quota_bytes:0]", size.InUse, size.File) {
			t.Error(got)
		}
	})
}

// A predecessor of the same name is dead: its leadership is taken over at once, long
// before its lease ends. Another server waits for that.
func TestTakesOverFromItsPredecessor(t *testing.T) {
	inHouse(t, func(h *house) {
		lease, err := h.store.Grant(h.ctx, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		h.Put(cellstate.Record{Key: cellstate.MetaKey(leaderMeta), Value: &ohmv1.Meta{Value: "s1"}, Lease: lease})
		other, same := h.keeper("s2", Limits{}), h.keeper("s1", Limits{})
		h.run(other)
		h.run(same)
		h.pass(time.Second)
		if other.Leads() || !same.Leads() {
			t.Fatalf("leads: other %v, same %v", other.Leads(), same.Leads())
		}
	})
}

// What an old leader still sends changes nothing.
func TestOldLeaderIsRefused(t *testing.T) {
	inHouse(t, func(h *house) {
		k := h.keeper("s1", Limits{})
		name := h.Job(celltest.Job{Name: "a"})
		old := cellstate.Guard{Key: cellstate.MetaKey(leaderMeta)}
		old.Revision = h.Put(cellstate.Record{Key: old.Key, Value: &ohmv1.Meta{Value: "s1"}})
		write := func() []cellstate.Write {
			s := h.Snapshot()
			record := &ohmv1.Job{Spec: s.Job(name).Record.GetSpec(), Version: 1, Done: &ohmv1.Outcome{State: "Failed"}}
			return []cellstate.Write{doneWrite(s, s.Job(name), record)}
		}
		h.Put(cellstate.Record{Key: old.Key, Value: &ohmv1.Meta{Value: "s2"}, Read: old.Revision})
		if applied, err := k.commit(h.ctx, old, write()); err != nil || applied[0] {
			t.Fatalf("the old leader's write applied: %v, %v", applied, err)
		}
		_, present := h.Snapshot().Meta(leaderMeta)
		if applied, err := k.commit(h.ctx, cellstate.Guard{Key: old.Key, Revision: present}, write()); err != nil || !applied[0] {
			t.Fatalf("the present leader's write did not apply: %v, %v", applied, err)
		}
	})
}

// A leader whose key is overwritten stops leading.
func TestDeposedLeaderStops(t *testing.T) {
	inHouse(t, func(h *house) {
		k := h.keeper("s1", Limits{})
		h.run(k)
		h.pass(time.Second)
		_, at := h.Snapshot().Meta(leaderMeta)
		h.Put(cellstate.Record{Key: cellstate.MetaKey(leaderMeta), Value: &ohmv1.Meta{Value: "s2"}, Read: at})
		h.pass(time.Second)
		if k.Leads() {
			t.Fatal("it leads on")
		}
	})
}
