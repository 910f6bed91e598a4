package schedulers_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/celltest"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/batch"
	"github.com/ohmcell/ohm/schedulers/reconcile"
	"github.com/ohmcell/ohm/schedulers/schedtest"
	"github.com/ohmcell/ohm/schedulers/service"
)

func near(within string, to *ohmv1.Selector) []*ohmv1.Affinity {
	return []*ohmv1.Affinity{{To: to, Within: within, Required: true}}
}

// Field case 36: five tasks spread over three nodes, updated ten times. The skew is counted
// over the new version only, and at most 1 after each update.
func TestCase36SkewOfTheNewVersion(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		for i := range 3 {
			cell.Up(celltest.Node{Name: fmt.Sprint("n", i), CPU: 8000})
		}
		s := cell.Run("service", "a", service.New())
		cell.Until("it is there", func(now *cellstate.Snapshot) bool {
			return now.Scheduler("service") != nil && s.Mirror.Snapshot() != nil
		})
		defer together(t, agents(cell, s.Mirror))()
		for version := range int64(11) {
			cell.Submit(celltest.Job{Name: "web", Kind: "service", Count: 5, CPU: 500 + version, Spread: &ohmv1.Spread{Over: "node", MaxSkew: 1, Required: true}})
			on := map[string]int{}
			cell.Until("all five are of the new version", func(now *cellstate.Snapshot) bool {
				clear(on)
				all := 0
				for _, task := range now.Job(celltest.Name("web")).Tasks {
					if task.Placement != nil {
						all++
						if task.Slot.Version == version+1 {
							on[task.Placement.GetNode()]++
						}
					}
				}
				return all == 5 && on["n0"]+on["n1"]+on["n2"] == 5
			})
			if least, most := min(on["n0"], on["n1"], on["n2"]), max(on["n0"], on["n1"], on["n2"]); most-least > 1 {
				t.Errorf("after update %d: %v", version, on)
			}
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Field case 39: rules are about a namespace of their own. Two jobs of one name, each wanting
// a node for itself, both run on one node; of five jobs that share a key and keep apart, three
// run on three nodes, and two wait with that reason.
func TestCase39ScopeIsExplicit(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		cell.Up(celltest.Node{Name: "n1", CPU: 8000})
		cell.Run("service", "a", service.New())
		key := map[string]string{"app": "db"}
		for _, namespace := range []string{"red", "blue"} {
			cell.Submit(celltest.Job{Namespace: namespace, Name: "web", Kind: "service", CPU: 100, Distinct: "node", Labels: key,
				AntiAffinity: near("node", &ohmv1.Selector{Labels: key})})
		}
		cell.Until("both run", func(s *cellstate.Snapshot) bool { return s.Node("n1").Count() == 2 })
		cell.Up(celltest.Node{Name: "n2", CPU: 8000}, celltest.Node{Name: "n3", CPU: 8000})
		placed := func(s *cellstate.Snapshot) (n int) {
			for i := range 5 {
				n += schedtest.Placed(s, fmt.Sprint("db", i))
			}
			return n
		}
		for i := range 5 {
			cell.Submit(celltest.Job{Name: fmt.Sprint("db", i), Kind: "service", CPU: 100, Labels: key, AntiAffinity: near("node", &ohmv1.Selector{Labels: key})})
		}
		s := cell.Until("three are placed, two wait", func(s *cellstate.Snapshot) bool {
			words := 0
			for i := range 5 {
				if schedtest.Word(s, fmt.Sprint("db", i)) != nil {
					words++
				}
			}
			return placed(s) == 3 && words == 2
		})
		for i := range 5 {
			row := s.Job(celltest.Name(fmt.Sprint("db", i)))
			if row.Waiting == nil {
				continue
			}
			if got := reconcile.Status(s, row, time.Now()).GetMessage(); !strings.Contains(got, "of 3 nodes 3 kept off by antiAffinity to jobs with app=db within node") {
				t.Errorf("%s is told %q", row.Name, got)
			}
		}
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Two schedulers place at once what must not come together, with rules that are wider than a
// node, and see late what the other has done: no revision shows them together.
func TestRulesHoldBetweenSchedulers(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		const zones = 6
		for i := range 2 * zones {
			cell.Up(celltest.Node{Name: fmt.Sprintf("n%02d", i), CPU: 8000, Attributes: map[string]string{"zone": fmt.Sprint(i % zones)}})
		}
		cell.Run("service", "a", schedtest.Takes{Policy: service.New(), Time: 3 * time.Millisecond})
		cell.Run("batch", "a", schedtest.Takes{Policy: batch.New(), Time: 2 * time.Millisecond})
		key := map[string]string{"app": "db"}
		for i := range zones {
			kind := []string{"service", "batch"}[i%2]
			cell.Submit(celltest.Job{Name: fmt.Sprint("db", i), Kind: kind, CPU: 100, Labels: key, AntiAffinity: near("zone", &ohmv1.Selector{Labels: key})})
		}
		cell.Submit(celltest.Job{Name: "wide", Kind: "service", Count: 12, CPU: 100, Spread: &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true}})
		cell.Submit(celltest.Job{Name: "cache", Kind: "batch", Count: 3, CPU: 100, Affinity: near("zone", &ohmv1.Selector{Job: "db0"})})
		cell.Until("all are placed", func(s *cellstate.Snapshot) bool {
			n := schedtest.Placed(s, "wide") + schedtest.Placed(s, "cache")
			for i := range zones {
				n += schedtest.Placed(s, fmt.Sprint("db", i))
			}
			return n == zones+12+3
		})
		schedtest.Audited(t, cell.Store, nil)
	})
}

// Of two schedulers that decide on one snapshot to put on two nodes of a zone what must not
// be in one zone, exactly one does. The loser learns the rule and whom it lost to, and runs as
// soon as there is another zone.
func TestRaceForAZone(t *testing.T) {
	bubble(t, func(t *testing.T, cell *schedtest.Cell) {
		zone := func(z string) map[string]string { return map[string]string{"zone": z} }
		cell.Up(celltest.Node{Name: "n1", CPU: 1000, Attributes: zone("a")}, celltest.Node{Name: "n2", CPU: 2000, Attributes: zone("a")})
		meet := make(chan struct{})
		var met atomic.Int32
		both := func() { // both have decided before one commits
			switch met.Add(1) {
			case 1:
				<-meet
			case 2:
				close(meet)
			}
		}
		cell.Run("service", "a", blinded{service.New(), both})
		cell.Run("batch", "a", blinded{batch.New(), both})
		key := map[string]string{"app": "db"}
		for kind, cpu := range map[string]int64{"service": 1000, "batch": 2000} {
			cell.Submit(celltest.Job{Name: kind, Kind: kind, CPU: cpu, Labels: key, AntiAffinity: near("zone", &ohmv1.Selector{Labels: key})})
		}
		s := cell.Until("one is placed, the other has lost", func(s *cellstate.Snapshot) bool {
			return schedtest.Placed(s, "service")+schedtest.Placed(s, "batch") == 1 && len(conflicts(s, "")) == 1 && (waits("service")(s) || waits("batch")(s))
		})
		winner := "service"
		if schedtest.Placed(s, "batch") == 1 {
			winner = "batch"
		}
		c := conflicts(s, "")[0]
		if c.GetReason() != "Rule" || c.GetDimension() != "antiAffinity to jobs with app=db within zone" || c.GetWinner().GetSlot().GetJob() != winner {
			t.Errorf("conflict %v, the winner is %s", c, winner)
		}
		cell.Up(celltest.Node{Name: "n3", CPU: 4000, Attributes: zone("b")})
		cell.Until("both are placed", func(s *cellstate.Snapshot) bool {
			return schedtest.Placed(s, "service")+schedtest.Placed(s, "batch") == 2
		})
		schedtest.Audited(t, cell.Store, nil)
	})
}
