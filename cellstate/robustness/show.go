package robustness

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
)

// Show is all that a snapshot knows, its revision aside, a line for each record: two
// snapshots of the same records show the same.
func Show(s *cellstate.Snapshot) string {
	var b strings.Builder
	for n := range s.Nodes() {
		fmt.Fprintf(&b, "node %s facts %d intent %d alive %d fence %d\n", n.Name, n.FactsRevision, n.IntentRevision, n.AliveRevision, n.Fence)
		for _, p := range n.Placements() {
			fmt.Fprintf(&b, "node %s placement %s %s at %d evicted by %q\n", n.Name, p.Slot, p.GetTxn(), p.Revision, p.GetEvictedBy())
		}
		for _, h := range n.Holds {
			fmt.Fprintf(&b, "node %s hold of %s at %d\n", n.Name, h.GetTxn(), h.Revision)
		}
		u := n.Used()
		fmt.Fprintf(&b, "node %s charged %d %d %d\n", n.Name, u.CPUMilli, u.MemoryBytes, u.DiskBytes)
	}
	for j := range s.Jobs() {
		fmt.Fprintf(&b, "job %s at %d waiting %d\n", j.Name, j.Revision, j.WaitingRevision)
		for _, t := range j.Tasks {
			live := cellstate.Revision(0)
			if t.Placement != nil {
				live = t.Placement.Revision
			}
			fmt.Fprintf(&b, "task %s placement %d status %d\n", t.Slot, live, t.StatusRevision)
			for _, e := range t.Ended {
				fmt.Fprintf(&b, "task %s attempt %d ended %d\n", t.Slot, e.Attempt, e.Revision)
			}
		}
	}
	for sched := range s.Schedulers() {
		for _, i := range sched.Instances {
			fmt.Fprintf(&b, "scheduler %s instance %s at %d\n", sched.Name, i.GetInstance(), i.Revision)
		}
	}
	for q := range s.Quotas() {
		fmt.Fprintf(&b, "quota of %s at %d\n", q.Scope, q.Revision)
		for _, share := range q.Shares {
			fmt.Fprintf(&b, "quota of %s share of %s %s at %d used %v\n", q.Scope, share.Scheduler, share.Instance, share.Revision, share.Used)
		}
	}
	for c := range s.Conflicts("") {
		fmt.Fprintf(&b, "conflict %s\n", c.GetId())
	}
	fmt.Fprintf(&b, "incarnation %s\n", s.Incarnation())
	return b.String()
}

// Differ is the first line in which two texts of Show differ; empty: none.
func Differ(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d of the store is %q, of the mirror %q", i+1, a, b)
		}
	}
	return ""
}
