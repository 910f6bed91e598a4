package cellstate_test

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/cellstate/memstore"
	"github.com/ohmcell/ohm/pkg/resource"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

const gi = 1 << 30

func newCell(t testing.TB) *celltest.Cell { return celltest.New(t, memstore.New()) }

func slot(s *cellstate.Snapshot, job string, index int) cellstate.Slot {
	return celltest.Slot(s, celltest.Name(job), "main", index)
}

func claim(s *cellstate.Snapshot, job string, index int, node cellstate.NodeName) cellstate.Claim {
	return celltest.Claim(s, slot(s, job, index), node)
}

// sicken has a GPU of a node be not ready.
func sicken(c *celltest.Cell, node cellstate.NodeName, gpu int) {
	row := c.Snapshot().Node(node)
	facts := proto.CloneOf(row.Facts)
	facts.Fence = nil
	facts.Gpus[gpu].Health, facts.Gpus[gpu].Why = ohmv1.DeviceHealth_DEVICE_HEALTH_NOT_READY, "so it is"
	c.Write(cellstate.NodeWrite(node, row, cellstate.Record{Key: cellstate.NodeKey(node), Value: facts, Read: row.FactsRevision}))
}

// TestValidate judges one claim of job a on node n1, which has 4 cores, 4Gi of memory
// and of disk, and two GPUs.
func TestValidate(t *testing.T) {
	whole := func(id string) []*ohmv1.DeviceShare { return []*ohmv1.DeviceShare{{Id: id, Milli: 1000}} }
	for _, c := range []struct {
		name   string
		job    celltest.Job         // a
		cell   func(*celltest.Cell) // what else there is
		change func(*cellstate.Txn) // of an honest transaction
		want   cellstate.Conflict   // Reason, Dimension, Wanted, Free; no Reason: it fits
	}{
		{name: "fits"},
		{name: "fits exactly", job: celltest.Job{CPU: 4000, Memory: 4 * gi, Disk: 4 * gi, GPUs: 2}},
		{name: "cpu", job: celltest.Job{CPU: 4001},
			want: cellstate.Conflict{Reason: cellstate.ReasonResources, Dimension: "cpu", Wanted: "4.001", Free: "4"}},
		{name: "memory", job: celltest.Job{Memory: 5 * gi},
			want: cellstate.Conflict{Reason: cellstate.ReasonResources, Dimension: "memory", Wanted: "5Gi", Free: "4Gi"}},
		{name: "disk beside others", job: celltest.Job{Disk: 3 * gi}, cell: func(c *celltest.Cell) {
			c.Job(celltest.Job{Name: "b", Disk: 2 * gi})
			c.Place("b", 0, "n1")
		}, want: cellstate.Conflict{Reason: cellstate.ReasonResources, Dimension: "disk", Wanted: "3Gi", Free: "2Gi"}},
		{name: "a shrunk node has nothing free, not less", job: celltest.Job{CPU: 1}, cell: func(c *celltest.Cell) {
			c.Job(celltest.Job{Name: "b", CPU: 4000})
			c.Place("b", 0, "n1")
			c.Node(celltest.Node{Name: "n1", CPU: 1000})
		}, want: cellstate.Conflict{Reason: cellstate.ReasonResources, Dimension: "cpu", Wanted: "1m", Free: "0"}},
		{name: "a device that is taken", change: func(x *cellstate.Txn) { x.Claims[0].GPUs = whole(celltest.GPU(0)) }, cell: func(c *celltest.Cell) {
			c.Job(celltest.Job{Name: "b", GPUs: 1, Share: 400})
			c.Place("b", 0, "n1")
		}, want: cellstate.Conflict{Reason: cellstate.ReasonDevice, Dimension: celltest.GPU(0), Wanted: "1000m", Free: "600m"}},
		{name: "a device that is not well", change: func(x *cellstate.Txn) { x.Claims[0].GPUs = whole(celltest.GPU(1)) }, cell: func(c *celltest.Cell) {
			sicken(c, "n1", 1)
		}, want: cellstate.Conflict{Reason: cellstate.ReasonDevice, Dimension: celltest.GPU(1), Wanted: "a healthy one", Free: "NotReady: so it is"}},
		{name: "beside a device that is not well", change: func(x *cellstate.Txn) { x.Claims[0].GPUs = whole(celltest.GPU(0)) }, cell: func(c *celltest.Cell) {
			sicken(c, "n1", 1)
		}},
		{name: "a device that there is not", change: func(x *cellstate.Txn) { x.Claims[0].GPUs = whole("gpu-7") },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "gpu gpu-7"}},
		{name: "a device twice", change: func(x *cellstate.Txn) { x.Claims[0].GPUs = append(whole("gpu-0"), whole("gpu-0")...) },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "gpu gpu-0"}},
		{name: "no share of a device", change: func(x *cellstate.Txn) { x.Claims[0].GPUs = []*ohmv1.DeviceShare{{Id: "gpu-0"}} },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "gpu gpu-0"}},
		{name: "more than a device", change: func(x *cellstate.Txn) { x.Claims[0].GPUs = []*ohmv1.DeviceShare{{Id: "gpu-0", Milli: 1001}} },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "gpu gpu-0"}},
		{name: "negative amounts", change: func(x *cellstate.Txn) { x.Claims[0].Resources = &ohmv1.Resources{DiskBytes: -1} },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "resources"}},
		{name: "an amount that would overflow", change: func(x *cellstate.Txn) { x.Claims[0].Resources = &ohmv1.Resources{CpuMilli: math.MaxInt64} },
			cell: func(c *celltest.Cell) {
				c.Job(celltest.Job{Name: "b", CPU: 1})
				c.Place("b", 0, "n1")
			}, want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "resources"}},
		{name: "more than any node may have", change: func(x *cellstate.Txn) { x.Claims[0].Resources = &ohmv1.Resources{CpuMilli: resource.MaxCPU + 1} },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "resources"}},
		{name: "port 0", change: func(x *cellstate.Txn) { x.Claims[0].Ports = []*ohmv1.Port{{Number: 0}} },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "port 0"}},
		{name: "port 65536", change: func(x *cellstate.Txn) { x.Claims[0].Ports = []*ohmv1.Port{{Number: 65536}} },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "port 65536"}},
		{name: "a port twice", change: func(x *cellstate.Txn) { x.Claims[0].Ports = []*ohmv1.Port{{Number: 80}, {Number: 80}} },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "port 80"}},
		{name: "attempt 0", change: func(x *cellstate.Txn) { x.Claims[0].Attempt = 0 },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "attempt", Wanted: "0"}},
		{name: "an index beyond the count", change: func(x *cellstate.Txn) { x.Claims[0].Slot.Index = 1 },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "slot", Wanted: "default/a/main/1@1"}},
		{name: "a negative index", change: func(x *cellstate.Txn) { x.Claims[0].Slot.Index = -1 },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "attempt", Wanted: "1"}},
		{name: "a group that there is not", change: func(x *cellstate.Txn) { x.Claims[0].Slot.Group = "other" },
			want: cellstate.Conflict{Reason: cellstate.ReasonMalformed, Dimension: "slot", Wanted: "default/a/other/0@1"}},
		{name: "a system job has no count", job: celltest.Job{Kind: "system"}, change: func(x *cellstate.Txn) { x.Claims[0].Slot.Index = 41 }},
		{name: "a node that there is not", change: func(x *cellstate.Txn) { x.Claims[0].Node = "n9" }, want: cellstate.Conflict{Reason: cellstate.ReasonNodeGone}},
		{name: "a node of which only wishes are known", change: func(x *cellstate.Txn) { x.Claims[0].Node = "n2" },
			cell: func(c *celltest.Cell) { c.Intent(&ohmv1.Intent{Node: "n2"}) }, want: cellstate.Conflict{Reason: cellstate.ReasonNodeGone}},
		{name: "a full disk", cell: func(c *celltest.Cell) {
			c.Node(celltest.Node{Name: "n1", DiskFull: "96% is taken"})
		}, want: cellstate.Conflict{Reason: cellstate.ReasonDiskFull}},
		{name: "a drained node", cell: func(c *celltest.Cell) { c.Intent(&ohmv1.Intent{Node: "n1", Drain: true}) }, want: cellstate.Conflict{Reason: cellstate.ReasonIneligible}},
		{name: "a constraint", job: celltest.Job{Constraints: []*ohmv1.Constraint{{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"b"}}}},
			want: cellstate.Conflict{Reason: cellstate.ReasonConstraint, Dimension: "zone"}},
		{name: "what the node cannot", job: celltest.Job{Groups: []*ohmv1.Group{{Name: "main", Count: 1, Resources: &ohmv1.Resources{}, Box: &ohmv1.Box{Image: "tar:/a", User: "1"}}}},
			want: cellstate.Conflict{Reason: cellstate.ReasonCannot, Dimension: "image, user"}},
		{name: "another's hold", job: celltest.Job{CPU: 3000}, cell: func(c *celltest.Cell) {
			c.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Resources: &ohmv1.Resources{CpuMilli: 2000}})
		}, want: cellstate.Conflict{Reason: cellstate.ReasonHold, Dimension: "cpu", Wanted: "3", Free: "2"}},
		{name: "its own hold", job: celltest.Job{CPU: 3000}, change: func(x *cellstate.Txn) { x.ID = "x" }, cell: func(c *celltest.Cell) {
			c.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Resources: &ohmv1.Resources{CpuMilli: 2000}})
		}},
		{name: "a hold below it", job: celltest.Job{CPU: 3000, Precedence: 100}, cell: func(c *celltest.Cell) {
			c.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Precedence: 99, Resources: &ohmv1.Resources{CpuMilli: 2000}})
		}},
		{name: "a held device", job: celltest.Job{GPUs: 2}, cell: func(c *celltest.Cell) {
			c.Hold(&ohmv1.Hold{Node: "n1", Txn: "x", Gpus: whole("gpu-1")})
		}, want: cellstate.Conflict{Reason: cellstate.ReasonHold, Dimension: "gpu-1", Wanted: "1000m", Free: "0m"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cell := newCell(t)
			cell.Node(celltest.Node{Name: "n1", CPU: 4000, Memory: 4 * gi, Disk: 4 * gi, GPUs: 2, Attributes: map[string]string{"zone": "a"}})
			c.job.Name = "a"
			cell.Job(c.job)
			if c.cell != nil {
				c.cell(cell)
			}
			s := cell.Snapshot()
			txn := celltest.Txn(s, cellstate.Incremental, claim(s, "a", 0, "n1"))
			if c.change != nil {
				c.change(txn)
			}
			fit, conflicts := cellstate.Validate(s, txn)
			if c.want.Reason == "" {
				if len(fit) != 1 || len(conflicts) != 0 {
					t.Fatalf("fit %v, conflicts %+v", fit, conflicts)
				}
				return
			}
			if len(fit) != 0 || len(conflicts) != 1 {
				t.Fatalf("fit %v, conflicts %+v", fit, conflicts)
			}
			got := conflicts[0]
			if got.Reason != c.want.Reason || got.Dimension != c.want.Dimension || got.Wanted != c.want.Wanted || got.Free != c.want.Free {
				t.Errorf("got %s %q wanted %q free %q, want %s %q wanted %q free %q", got.Reason, got.Dimension, got.Wanted, got.Free,
					c.want.Reason, c.want.Dimension, c.want.Wanted, c.want.Free)
			}
			if got.Revision != s.Revision() || got.Winner != nil {
				t.Errorf("judged at %d, winner %v", got.Revision, got.Winner)
			}
		})
	}
}

// Claims are judged in order, each on top of those before it.
func TestValidateInOrder(t *testing.T) {
	cell := newCell(t)
	cell.Node(celltest.Node{Name: "n1", CPU: 4000})
	cell.Node(celltest.Node{Name: "n2", CPU: 4000})
	cell.Job(celltest.Job{Name: "a", Count: 4, CPU: 2000})
	s := cell.Snapshot()
	claims := []cellstate.Claim{claim(s, "a", 0, "n1"), claim(s, "a", 1, "n1"), claim(s, "a", 2, "n1"), claim(s, "a", 3, "n2")}
	fit, conflicts := cellstate.Validate(s, celltest.Txn(s, cellstate.Incremental, claims...))
	if len(fit) != 3 || fit[2] != 3 || len(conflicts) != 1 || conflicts[0].Claim != 2 {
		t.Errorf("incremental: fit %v, conflicts %+v", fit, conflicts)
	}
	fit, conflicts = cellstate.Validate(s, celltest.Txn(s, cellstate.Atomic, claims...))
	if len(fit) != 0 || len(conflicts) != 1 || conflicts[0].Claim != 2 {
		t.Errorf("atomic: fit %v, conflicts %+v", fit, conflicts)
	}
}

// The winner is the first placement newer than the loser's snapshot with which the
// claim no longer fits; those in between are listed.
func TestWinner(t *testing.T) {
	setup := func(t *testing.T) *celltest.Cell {
		cell := newCell(t)
		cell.Node(celltest.Node{Name: "n1", CPU: 4000})
		for _, j := range []celltest.Job{{Name: "one", Count: 3, CPU: 1000}, {Name: "two", CPU: 2000}, {Name: "three", CPU: 3000},
			{Name: "all", CPU: 4000, Precedence: 100}, {Name: "loser", CPU: 2000}, {Name: "small", CPU: 1000}, {Name: "high", CPU: 1000, Precedence: 200}} {
			cell.Job(j)
		}
		return cell
	}
	lose := func(t *testing.T, cell *celltest.Cell, txn *cellstate.Txn) cellstate.Conflict {
		t.Helper()
		fit, conflicts := cellstate.Validate(cell.Snapshot(), txn)
		if len(fit) > 0 || len(conflicts) != 1 {
			t.Fatalf("fit %v, conflicts %+v", fit, conflicts)
		}
		return conflicts[0]
	}
	t.Run("the one after which it no longer fits", func(t *testing.T) {
		cell := setup(t)
		s := cell.Snapshot()
		txn := celltest.Txn(s, cellstate.Incremental, claim(s, "loser", 0, "n1"))
		before := cell.Place("one", 0, "n1")
		winner := cell.Place("two", 0, "n1")
		cell.Place("one", 1, "n1") // too late to be to blame
		got := lose(t, cell, txn)
		if got.Winner.GetTxn() != winner.GetTxn() || len(got.Between) != 1 || got.Between[0].GetTxn() != before.GetTxn() {
			t.Errorf("winner %v, between %v", got.Winner, got.Between)
		}
	})
	t.Run("nobody, where it never fitted", func(t *testing.T) {
		cell := setup(t)
		cell.Place("three", 0, "n1")
		s := cell.Snapshot()
		txn := celltest.Txn(s, cellstate.Incremental, claim(s, "loser", 0, "n1"))
		cell.Place("one", 0, "n1")
		if got := lose(t, cell, txn); got.Winner != nil {
			t.Errorf("winner %v", got.Winner)
		}
	})
	t.Run("the heir, not its victim, whose record is as new", func(t *testing.T) {
		cell := setup(t)
		victim := cell.Place("three", 0, "n1")
		s := cell.Snapshot()
		txn := celltest.Txn(s, cellstate.Incremental, claim(s, "small", 0, "n1"))
		heir := claim(s, "all", 0, "n1")
		heir.Victims = []*ohmv1.Victim{celltest.Victim(victim)}
		winner := celltest.Txn(s, cellstate.Incremental, heir)
		cell.Commit(s, winner)
		if got := lose(t, cell, txn); got.Winner == nil || got.Winner.TxnID() != winner.ID {
			t.Errorf("winner %v, want %s", got.Winner, winner.ID)
		}
	})
	t.Run("of a claim that evicts", func(t *testing.T) {
		cell := setup(t)
		cell.Place("three", 0, "n1")
		victim := cell.Place("one", 0, "n1")
		s := cell.Snapshot()
		evicting := claim(s, "high", 0, "n1")
		evicting.Resources = &ohmv1.Resources{CpuMilli: 2000}
		evicting.Victims = []*ohmv1.Victim{celltest.Victim(victim)}
		txn := celltest.Txn(s, cellstate.Incremental, evicting)
		three := s.Job(celltest.Name("three")).Task(slot(s, "three", 0))
		cell.Release(three.Slot, task.Succeeded) // now it would fit
		between := cell.Place("two", 0, "n1")    // still
		winner := cell.Place("one", 1, "n1")     // and now not
		got := lose(t, cell, txn)
		if got.Winner.GetTxn() != winner.GetTxn() || len(got.Between) != 1 || got.Between[0].GetTxn() != between.GetTxn() {
			t.Errorf("winner %v, between %v", got.Winner, got.Between)
		}
	})
}

func TestMatches(t *testing.T) {
	cell := newCell(t)
	cell.Node(celltest.Node{Name: "n1", Attributes: map[string]string{"os": "linux", "zone": "a"}})
	cell.Intent(&ohmv1.Intent{Node: "n1", Labels: map[string]string{"zone": "b"}})
	n := cell.Snapshot().Node("n1")
	in, notIn := ohmv1.Operator_OPERATOR_IN, ohmv1.Operator_OPERATOR_NOT_IN
	for _, c := range []struct {
		key    string
		op     ohmv1.Operator
		values []string
		ok     bool
	}{
		{"os", in, []string{"darwin", "linux"}, true},
		{"os", in, []string{"darwin"}, false},
		{"gone", in, []string{""}, false},
		{"zone", in, []string{"b"}, true}, // a label hides the attribute
		{"zone", in, []string{"a"}, false},
		{"node", in, []string{"n1"}, true},
		{"os", notIn, []string{"linux"}, false},
		{"gone", notIn, []string{"linux"}, true},
		{"os", ohmv1.Operator_OPERATOR_EXISTS, nil, true},
		{"gone", ohmv1.Operator_OPERATOR_EXISTS, nil, false},
		{"os", ohmv1.Operator_OPERATOR_ABSENT, nil, false},
		{"gone", ohmv1.Operator_OPERATOR_ABSENT, nil, true},
		{"os", ohmv1.Operator(99), nil, false},
	} {
		constraint := &ohmv1.Constraint{Key: c.key, Op: c.op, Values: c.values}
		failed, ok := cellstate.Matches(n, []*ohmv1.Constraint{constraint})
		if ok != c.ok || (failed == constraint) == c.ok {
			t.Errorf("%v: %v, failed %v", constraint, ok, failed)
		}
	}
	if _, ok := cellstate.Matches(n, nil); !ok {
		t.Error("no constraint fails")
	}
}

// Admit is the node's part of the rule: it knows no jobs and no slots.
func TestAdmit(t *testing.T) {
	cell := newCell(t)
	cell.Node(celltest.Node{Name: "n1", CPU: 4000})
	cell.Job(celltest.Job{Name: "a", Count: 3, CPU: 2000})
	cell.Place("a", 0, "n1")
	s := cell.Snapshot()
	unknown := cellstate.Claim{Slot: cellstate.Slot{Job: "none"}, Node: "n1", Resources: &ohmv1.Resources{CpuMilli: 1000}}
	fit, conflicts := cellstate.Admit(s.Node("n1"), celltest.Txn(s, cellstate.Incremental, unknown, claim(s, "a", 1, "n1"), claim(s, "a", 2, "n2")))
	if len(fit) != 1 || fit[0] != 0 || len(conflicts) != 2 || conflicts[0].Reason != cellstate.ReasonResources || conflicts[1].Reason != cellstate.ReasonNodeGone {
		t.Errorf("fit %v, conflicts %+v", fit, conflicts)
	}
}
