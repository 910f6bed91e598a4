package reconcile

import (
	"github.com/ohmcell/ohm/cellstate"
)

// Follow is what Needs says of a job's row, where that follows at once from the needs of an
// older row: nothing has happened to the job, of kind batch and waiting for no time, but that
// tasks were placed, changed their status, or succeeded. That is nearly all that happens to
// most jobs, and a job of many tasks need not be judged for it anew each time.
func Follow(was, is *cellstate.Job, needs []Need) (_ []Need, ok bool) {
	if was == nil || is.Record == nil || was.Record != is.Record || is.Record.GetSpec().GetKind() != kindBatch || is.MaxParallel() > 0 {
		return nil, false
	}
	old := was.Tasks
	var placed []cellstate.Slot // by slot, as both rows are
	for _, t := range is.Tasks {
		if len(old) > 0 && old[0] == t {
			old = old[1:]
			continue
		}
		had := false // a live placement
		if len(old) > 0 && old[0].Slot == t.Slot {
			had, old = old[0].Placement != nil, old[1:]
		}
		switch {
		case !is.Current(t.Slot):
			return nil, false
		case t.Placement != nil && !had:
			placed = append(placed, t.Slot)
		case t.Placement != nil: // still
		case had && len(t.Ended) > 0 && Classify(newest(t.Ended).GetStatus()) == Success:
		default:
			return nil, false
		}
	}
	if len(old) > 0 { // a task is gone
		return nil, false
	}
	if len(placed) == 0 || len(needs) == 0 {
		return needs, true
	}
	var left []Need
	for _, n := range needs {
		for len(placed) > 0 && placed[0].Compare(n.Slot) < 0 {
			placed = placed[1:]
		}
		if len(placed) == 0 || placed[0] != n.Slot {
			left = append(left, n)
		}
	}
	return left, true
}
