package mirror

import (
	"cmp"
	"slices"

	"github.com/ohmcell/ohm/cellstate"
)

// A watch is a hint. What it brings is taken for what happened only as far as it agrees
// with what a snapshot at its revision must have seen: all that happened up to there.

// sift makes of a batch what a snapshot can be moved on with: what is newer than the
// snapshot, by revision. What the snapshot has seen already is left out. A change that it
// should have seen and has not is in doubt: an event was lost before, or comes late.
func sift(s *cellstate.Snapshot, b cellstate.Batch) (_ cellstate.Batch, doubt *cellstate.Change) {
	clean := true
	var last *cellstate.Change
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Revision <= s.Revision() || last != nil && (c.Revision < last.Revision || c.Revision == last.Revision && c.Key == last.Key) {
			clean = false
			break
		}
		last = c
	}
	if clean {
		return b, nil
	}
	type event struct {
		key cellstate.Key
		at  cellstate.Revision
	}
	seen := make(map[event]bool, len(b.Changes))
	late := map[cellstate.Key]*cellstate.Change{} // what came last of each key
	fresh := make([]cellstate.Change, 0, len(b.Changes))
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Revision <= s.Revision() {
			if was := late[c.Key]; was == nil || was.Revision < c.Revision {
				late[c.Key] = c
			}
		} else if e := (event{c.Key, c.Revision}); !seen[e] {
			seen[e] = true
			fresh = append(fresh, *c)
		}
	}
	for _, c := range late {
		if missed(s, c) {
			doubt = c
		}
	}
	slices.SortStableFunc(fresh, func(a, b cellstate.Change) int { return cmp.Compare(a.Revision, b.Revision) })
	return cellstate.Batch{Revision: b.Revision, Changes: fresh}, doubt
}

// missed says whether a change that is not newer than the snapshot is not in it. A record
// that is not there at all may have been deleted since: that cannot be told from a loss.
func missed(s *cellstate.Snapshot, c *cellstate.Change) bool {
	if c.Key.Parse().Kind == cellstate.KindUnknown {
		return false
	}
	known := s.RecordRevision(c.Key)
	if c.Deleted {
		return known != 0 && known < c.Revision
	}
	return known < c.Revision
}
