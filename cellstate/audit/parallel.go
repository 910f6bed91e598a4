package audit

import "github.com/ohmcell/ohm/cellstate"

// parallel checks that no commit makes more tasks of a job live than its maxParallel: L9. The
// job is that before the revision; its tasks are those that the revision leaves.
func (r *revision) parallel() {
	seen := map[cellstate.JobName]bool{}
	for _, p := range r.commits {
		name := p.Slot.JobName()
		j := r.before.Job(name)
		if seen[name] || j == nil || j.MaxParallel() == 0 {
			continue
		}
		seen[name] = true
		if n := r.after.Job(name).Placements(); n > j.MaxParallel() {
			r.violated(L9, p.Slot.PlacementKey(), "%d tasks of the job are live, of at most %d at a time", n, j.MaxParallel())
		}
	}
}
