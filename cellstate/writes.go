package cellstate

import (
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// JobRecords are the records that make a job's record next, and its rollout what is given;
// nil: it has none. row is what stands, empty where nothing does.
func JobRecords(row *Job, name JobName, next *ohmv1.Job, rollout *ohmv1.Rollout) []Record {
	recs := []Record{{Key: JobKey(name), Value: next, Read: row.Revision}}
	switch {
	case rollout == row.Rollout:
	case rollout == nil:
		recs = append(recs, Record{Key: RolloutKey(name), Read: row.RolloutRevision})
	default:
		recs = append(recs, Record{Key: RolloutKey(name), Value: rollout, Read: row.RolloutRevision})
	}
	return recs
}

// NodeWrite is the write of some of a node's own records (nodes/, intents/, holds/). It
// compares and bumps the node's fence, so that no claim commits that was judged on the
// node as it was before. n is the node's row; nil if nothing is stored of it yet.
func NodeWrite(name NodeName, n *Node, recs ...Record) Write {
	var compared Revision
	if n != nil {
		compared = n.Fence
	}
	fence := &ohmv1.Fence{Compared: int64(compared), Records: int32(len(recs))}
	for _, rec := range recs {
		switch v := rec.Value.(type) {
		case *ohmv1.Node:
			v.Fence = fence
		case *ohmv1.Intent:
			v.Fence = fence
		case *ohmv1.Hold:
			v.Fence = fence
		}
	}
	return Write{Fences: []FenceBump{{Node: name, Compared: compared}}, Records: recs}
}
