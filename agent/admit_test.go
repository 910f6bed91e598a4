package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestAdmit(t *testing.T) {
	facts := &ohmv1.Node{Name: "n1", Capacity: &ohmv1.Resources{CpuMilli: 4000, MemoryBytes: 100},
		Gpus: []*ohmv1.Device{{Id: "g0", Model: "T4"}}}
	cpu := func(n int64) *ohmv1.Placement {
		return &ohmv1.Placement{Resources: &ohmv1.Resources{CpuMilli: n}}
	}
	gpu := func(id string, milli int32) *ohmv1.Placement {
		return &ohmv1.Placement{Gpus: []*ohmv1.DeviceShare{{Id: id, Milli: milli}}}
	}
	port := func(n int32) *ohmv1.Placement {
		return &ohmv1.Placement{Ports: []*ohmv1.Port{{Name: "http", Number: n}}}
	}
	evicted, heir := cpu(3000), cpu(3000)
	evicted.EvictedBy, heir.Txn = "x", "x"
	heir.Victims = []*ohmv1.Victim{{Txn: "y"}}
	type list = []*ohmv1.Placement
	for _, c := range []struct {
		name         string
		alive, fresh list
		want         string // for each: y(es), w(ait), n(ever)
	}{
		{"an empty node", nil, list{cpu(4000)}, "y"},
		{"beside others", list{cpu(2000), cpu(1000)}, list{cpu(1000)}, "y"},
		{"no room", list{cpu(2000), cpu(1000)}, list{cpu(1001)}, "w"},
		{"each beside those before", nil, list{cpu(3000), cpu(2000), cpu(1000)}, "ywy"},
		{"too big for the node", nil, list{cpu(4001), cpu(1)}, "ny"},
		{"a victim that still runs", list{evicted}, list{heir}, "w"},
		{"a GPU", list{gpu("g0", 400)}, list{gpu("g0", 600), gpu("g0", 1)}, "yw"},
		{"a GPU that is not here", nil, list{gpu("g9", 1000)}, "n"},
		{"a port", list{port(80)}, list{port(80), port(81)}, "wy"},
		{"nothing needed on a full node", list{cpu(4000), gpu("g0", 1000)}, list{{}}, "y"},
	} {
		got := ""
		for _, v := range admit(row(facts, c.alive), c.fresh) {
			got += map[bool]string{v.ok: "y", v.never: "n", !v.ok && !v.never: "w"}[true]
			if v.ok == (v.why != "") {
				t.Errorf("%s: %+v", c.name, v)
			}
		}
		equal(t, c.name, got, c.want)
	}
}

// TestWaitsForRoom is field case 13: the store says that there is room, but what it
// was given back by still runs.
func TestWaitsForRoom(t *testing.T) {
	for _, released := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.start()
			old, next := assignment("old", 3000), assignment("next", 3000)
			w.m.locked(func() { w.m.stubborn[old.Id], w.m.immortal[old.Id] = true, true })
			w.complete(old)
			if released {
				w.incremental([]string{old.Id}, next)
			} else {
				w.incremental(nil, assignment("old", 3000, stopFor(task.Stop)), next)
			}
			w.pass(5 * time.Minute)
			equal(t, "told", w.told(next.Id), []string{"Assigned"})
			if m := w.last(next.Id).GetMessage(); !strings.Contains(m, "cpu") {
				t.Errorf("message %q", m)
			}
			small := assignment("small", 1000)
			w.incremental(nil, small)
			equal(t, "what fits", task.Name(w.last(small.Id).GetState()), "Running")
			w.m.locked(func() { w.m.immortal[old.Id] = false })
			w.pass(time.Minute)
			equal(t, "then", task.Name(w.last(next.Id).GetState()), "Running")
			if peak, _ := w.m.peaks(); peak > 4000 {
				t.Errorf("processes of %d at the same time", peak)
			}
		})
	}
}

// TestFewAtATime: what is judged later counts what was let in before.
func TestFewAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Steps = 2
		w.start()
		old := assignment("old", 2000)
		w.complete(old)
		a, b, c := assignment("a", 3000), assignment("b", 1500), assignment("c", 1000)
		w.incremental(nil, a, b, c)
		equal(t, "left", w.m.knows(), []string{b.Id, old.Id})
		peak, _ := w.m.peaks()
		equal(t, "peak", peak, 3500)
	})
}

// TestUnknownSize: beside a process of which nobody knows how big it is nothing starts.
func TestUnknownSize(t *testing.T) {
	inWorld(t, func(w *world) {
		w.m.stubborn["x"] = true
		w.m.put(driver.Task{ID: "x"})
		w.start()
		a := assignment("a", 1000)
		w.complete(a)
		equal(t, "told", w.told(a.Id), []string{"Assigned"})
		w.pass(defaultGrace + time.Second)
		calls := w.m.did()
		equal(t, "calls", calls[:2], []string{"signal x 15", "kill x"})
		equal(t, "left", w.m.knows(), []string{a.Id})
	})
}

func TestNeverFits(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		a := assignment("a", 5000)
		w.complete(a)
		equal(t, "told", w.told(a.Id), []string{"Failed Refused"})
		equal(t, "message", w.last(a.Id).GetMessage(), "it does not fit this node: Resources cpu, wanted 5, there is 4")
		equal(t, "calls", w.m.did(), nil)
	})
}
