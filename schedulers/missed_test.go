package schedulers

import (
	"cmp"
	"slices"
	"testing"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// crowded is a cell of two full nodes of 4 cores: on n1 stands a task of 4 cores, on n2 one of
// 2 and two of 1.
func crowded(t *testing.T) *celltest.Cell {
	cell := celltest.New(t, memstore.New())
	for _, n := range []string{"n1", "n2"} {
		cell.Node(celltest.Node{Name: n})
		cell.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(n)), Value: &ohmv1.Alive{Node: n}})
	}
	cell.Job(celltest.Job{Name: "large", Scheduler: "other", Precedence: celltest.BatchLevel, CPU: 4000})
	cell.Job(celltest.Job{Name: "middle", Scheduler: "other", Precedence: celltest.BatchLevel, CPU: 2000})
	cell.Job(celltest.Job{Name: "small", Scheduler: "other", Precedence: celltest.BatchLevel, Count: 3, CPU: 1000})
	cell.Place("large", 0, "n1")
	cell.Place("middle", 0, "n2")
	cell.Place("small", 0, "n2")
	cell.Place("small", 1, "n2")
	return cell
}

// Room came and went if another scheduler's newer placement, no more important than the
// slot, stands where the slot would fit but for it.
func TestRoomThatCameAndWent(t *testing.T) {
	moved := func(c *celltest.Cell, job string, index int, to string) {
		slot := celltest.Slot(c.Snapshot(), celltest.Name(job), "main", index)
		c.Release(slot, task.Failed)
		c.Place(job, index, to)
	}
	for name, tt := range map[string]struct {
		job     celltest.Job // that found no node
		happens func(*celltest.Cell)
		want    string // the task that took the room; empty: nothing was missed
	}{
		"nothing happens":            {celltest.Job{CPU: 1000}, func(*celltest.Cell) {}, ""},
		"a task ends, another comes": {celltest.Job{CPU: 1000}, func(c *celltest.Cell) { moved(c, "small", 0, "n2") }, "small/main/0"},
		"too small a one":            {celltest.Job{CPU: 2000}, func(c *celltest.Cell) { moved(c, "small", 0, "n2") }, ""},
		"two small ones that were never gone together": {celltest.Job{CPU: 2000}, func(c *celltest.Cell) {
			moved(c, "small", 0, "n2")
			moved(c, "small", 1, "n2")
		}, ""},
		"one of our own":       {celltest.Job{CPU: 1000, Scheduler: "other"}, func(c *celltest.Cell) { moved(c, "small", 0, "n2") }, ""},
		"a more important one": {celltest.Job{CPU: 1000, Precedence: celltest.BatchLevel - 1}, func(c *celltest.Cell) { moved(c, "small", 0, "n2") }, ""},
		"on a node that is not eligible": {celltest.Job{CPU: 1000}, func(c *celltest.Cell) {
			moved(c, "small", 0, "n2")
			c.Intent(&ohmv1.Intent{Node: "n2", Ineligible: true})
		}, ""},
		"a large one on the other node": {celltest.Job{CPU: 4000}, func(c *celltest.Cell) { moved(c, "large", 0, "n1") }, "large/main/0"},
		"room that came and stays": {celltest.Job{CPU: 1000}, func(c *celltest.Cell) {
			c.Release(celltest.Slot(c.Snapshot(), celltest.Name("small"), "main", 0), task.Succeeded)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cell := crowded(t)
			tt.job.Name = "j"
			tt.job.Precedence = cmp.Or(tt.job.Precedence, celltest.BatchLevel)
			if tt.job.Scheduler == "" {
				tt.job.Scheduler = "slow"
			}
			cell.Job(tt.job)
			s := cell.Snapshot()
			row := s.Job(celltest.Name("j"))
			tt.happens(cell)
			now := cell.Snapshot()
			var nodes []*cellstate.Node
			for n := range now.Nodes() {
				nodes = append(nodes, n)
			}
			need := reconcile.Need{Slot: celltest.Slot(s, row.Name, "main", 0), Attempt: 1, Group: row.Group("main")}
			r := &Runner{Config: Config{Name: tt.job.Scheduler}}
			node, p := r.took(s, now, nodes, row, need)
			got := ""
			if p != nil {
				if got = p.Slot.Task(); cellstate.NodeName(p.GetNode()) != node {
					t.Errorf("node %s, placement %v", node, p)
				}
			}
			if got != tt.want {
				t.Errorf("the room went to %q, want %q", got, tt.want)
			}
		})
	}
}

// A search looks again only where something has changed; a gang has use for what was free
// before, too.
func TestSearchFindsWhatHasChanged(t *testing.T) {
	store := memstore.New()
	cell := celltest.New(t, store)
	for _, n := range []string{"n1", "n2", "n3"} {
		cell.Node(celltest.Node{Name: n})
		cell.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(n)), Value: &ohmv1.Alive{Node: n}})
	}
	cell.Job(celltest.Job{Name: "full", Count: 3, CPU: 4000})
	cell.Job(celltest.Job{Name: "j", Count: 2, CPU: 4000})
	cell.Place("full", 0, "n1")
	cell.Place("full", 1, "n2")
	before := cell.Snapshot() // with room on n3
	cell.Release(celltest.Slot(before, celltest.Name("full"), "main", 1), task.Succeeded)
	present := cell.Snapshot().Revision()
	now := before
	for b, err := range store.Changes(t.Context(), before.Revision()) {
		if err != nil {
			t.Fatal(err)
		}
		if now, _, err = now.Apply(b); err != nil {
			t.Fatal(err)
		}
		if now.Revision() >= present {
			break
		}
	}
	row := now.Job(celltest.Name("j"))
	for least, want := range map[int][]cellstate.NodeName{1: {"n2"}, 2: {"n2", "n3"}} {
		u := &starving{job: row, least: least, txn: &cellstate.Txn{}}
		for i := range least {
			u.needs = append(u.needs, reconcile.Need{Slot: celltest.Slot(now, row.Name, "main", i), Attempt: 1, Group: row.Group("main")})
		}
		if !u.fit(now, before, nil, 0, 0) || len(u.txn.Claims) != len(want) {
			t.Fatalf("%d: claims %v", least, u.txn.Claims)
		}
		for i, c := range u.txn.Claims {
			if c.Node != want[i] {
				t.Errorf("%d: task %d on %s, want %s", least, i, c.Node, want[i])
			}
		}
		if u.fit(now, now, nil, 0, 0) != (least == 2) {
			t.Errorf("%d: where nothing has changed it found %v", least, u.txn.Claims)
		}
	}
}

// Room on a node that a rule keeps a task off is none to it: nothing is held or reserved there
// for it, and nobody yields to it.
func TestSearchKeepsToRules(t *testing.T) {
	cell := celltest.New(t, memstore.New())
	for _, n := range []string{"n1", "n2"} {
		cell.Node(celltest.Node{Name: n, Attributes: map[string]string{"zone": "a"}})
		cell.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(n)), Value: &ohmv1.Alive{Node: n}})
	}
	key := map[string]string{"app": "db"}
	cell.Job(celltest.Job{Name: "db", Labels: key})
	cell.Place("db", 0, "n1")
	rule := func(within string) []*ohmv1.Affinity {
		return []*ohmv1.Affinity{{To: &ohmv1.Selector{Labels: key}, Within: within, Required: true}}
	}
	for name, job := range map[string]celltest.Job{
		"":   {Name: "zone", AntiAffinity: rule("zone")},
		"n2": {Name: "node", AntiAffinity: rule("node")},
		"n1": {Name: "near", Affinity: rule("node")},
	} {
		row := cell.Job(job)
		now := cell.Snapshot().Job(row)
		s := cell.Snapshot()
		need := []reconcile.Need{{Slot: celltest.Slot(s, now.Name, "main", 0), Attempt: 1, Group: now.Group("main")}}
		for _, search := range []func(*starving) bool{
			func(u *starving) bool { return u.fit(s, nil, nil, 0, 0) },
			func(u *starving) bool {
				return u.fillAll(s, slices.Collect(s.Nodes()), func(*cellstate.Placement) bool { return false }, 0)
			},
		} {
			u := &starving{job: now, needs: need, least: 1, txn: &cellstate.Txn{}}
			if found := search(u); found != (name != "") || found && u.txn.Claims[0].Node != cellstate.NodeName(name) {
				t.Errorf("job %s: found %v: %v, want %q", now.Name, found, u.txn.Claims, name)
			}
		}
		v := rival{job: now, need: need[0]}
		for n := range s.Nodes() {
			if v.fits(s, n) != (string(n.Name) == name) {
				t.Errorf("job %s would be yielded to on node %s, want on %q", now.Name, n.Name, name)
			}
		}
	}
}
