package celltest

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
)

// Differ says in what two snapshots differ, line by line: records, their revisions, the
// nodes' fences and what the nodes are charged with. The revision of the whole is not
// looked at.
func Differ(got, want *cellstate.Snapshot) []string {
	a, b := dump(got), dump(want)
	var lines []string
	for what, w := range b {
		if g, ok := a[what]; !ok {
			lines = append(lines, fmt.Sprintf("%s is missing: %s", what, w))
		} else if g != w {
			lines = append(lines, fmt.Sprintf("%s is %s, want %s", what, g, w))
		}
	}
	for what, g := range a {
		if _, ok := b[what]; !ok {
			lines = append(lines, fmt.Sprintf("%s should not be there: %s", what, g))
		}
	}
	slices.Sort(lines)
	return lines
}

// dump is all that a snapshot says, by what it says it of.
func dump(s *cellstate.Snapshot) map[string]string {
	out := map[string]string{}
	record := func(key cellstate.Key, at cellstate.Revision, m proto.Message) {
		if m.ProtoReflect().IsValid() {
			raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m) // it came from there
			out[string(key)] = fmt.Sprintf("%q at %d", raw, at)
		}
	}
	placements := map[cellstate.Slot]*cellstate.Placement{}
	for j := range s.Jobs() {
		record(cellstate.JobKey(j.Name), j.Revision, j.Record)
		record(cellstate.WaitingKey(j.Name), j.WaitingRevision, j.Waiting)
		record(cellstate.RolloutKey(j.Name), j.RolloutRevision, j.Rollout)
		record(cellstate.ScheduleKey(j.Name), j.ScheduleRevision, j.Schedule)
		for _, r := range j.Runs {
			record(cellstate.RunKey(j.Name, r.Number), r.Revision, r.Run)
		}
		for _, t := range j.Tasks {
			record(t.Slot.StatusKey(), t.StatusRevision, t.Status)
			if p := t.Placement; p != nil {
				record(t.Slot.PlacementKey(), p.Revision, p.Record())
				placements[t.Slot] = p
			}
			for _, e := range t.Ended {
				record(t.Slot.EndedKey(e.Attempt), e.Revision, e.Ended)
			}
		}
	}
	for n := range s.Nodes() {
		record(cellstate.NodeKey(n.Name), n.FactsRevision, n.Facts)
		record(cellstate.IntentKey(n.Name), n.IntentRevision, n.Intent)
		record(cellstate.AliveKey(n.Name), n.AliveRevision, n.Alive)
		for _, h := range n.Holds {
			record(cellstate.HoldKey(n.Name, cellstate.TxnID(h.GetTxn())), h.Revision, h.Hold)
		}
		u := n.Used()
		out["node "+string(n.Name)] = fmt.Sprint("fence ", n.Fence, ", charged ", u.CPUMilli, u.MemoryBytes, u.DiskBytes, sorted(u.GPUs), sorted(u.Ports))
		for _, p := range n.Placements() {
			if placements[p.Slot] != p {
				out["node "+string(n.Name)+" has "+p.Slot.String()] = "and its job has not"
			}
			delete(placements, p.Slot)
		}
	}
	for slot := range placements {
		out["placement "+slot.String()] = "stands on no node"
	}
	for row := range s.Schedulers() {
		record(cellstate.SchedulerKey(row.Name), row.Revision, row.Record)
		for _, i := range row.Instances {
			record(cellstate.InstanceKey(row.Name, i.GetInstance()), i.Revision, i.SchedulerInstance)
		}
	}
	for key, at := range s.Records("", "") { // what no row above has: the journal and meta
		if _, ok := out[string(key)]; !ok {
			out[string(key)] = fmt.Sprint("at ", at)
		}
	}
	return out
}

func sorted[K string | int32, V any](m map[K]V) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprint(k, ":", m[k]))
	}
	return out
}
