package keeper

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// mostReleased bounds the placements that one write releases. Those of a larger gang follow:
// once some are, all are to be.
const mostReleased = 32

// releaseWrite marks what is left of a broken gang to be stopped, when the time for its
// repair has passed, and says when that may be; zero: not before something changes. Whoever
// changes anything of the gang meanwhile, and may repair it, makes the write fail.
func releaseWrite(s *cellstate.Snapshot, j *cellstate.Job, now time.Time) (w cellstate.Write, at time.Time) {
	release, at := reconcile.Defaults().Release(s, j, now)
	if !release {
		return w, at
	}
	for _, t := range j.Tasks {
		p := t.Placement
		if p == nil || p.GetReleased() || !j.Current(t.Slot) || len(w.Records) == mostReleased {
			continue
		}
		record := proto.CloneOf(p.Record())
		record.Released, record.Fence, record.Scopes = true, nil, nil // it adds to no node
		w.Records = append(w.Records, cellstate.Record{Key: t.Slot.PlacementKey(), Value: record, Read: p.Revision})
	}
	from, end := cellstate.TasksKeys(j.Name)
	w.Guards = []cellstate.Guard{
		{Key: from, End: end, Revision: s.Revision(), NotNewer: true},
		{Key: cellstate.JobKey(j.Name), Revision: j.Revision},
	}
	return w, time.Time{}
}
