package model

func (w *world) jobSteps(s *state, do doer) {
	seen := uint8(0)
	for _, spec := range w.Slots {
		j := uint8(spec.Job)
		if seen&bit(j) != 0 {
			continue
		}
		seen |= bit(j)
		switch job := s.store.jobs[j]; {
		case job.live && int(s.stops) < w.Stops:
			do("job %d is stopped (it was at revision %d)", j, job.rev, func(s *state) {
				s.stops++
				w.write(s, func() { s.store.jobs[j] = jobAt(s.rev, false) })
			})
		case job.rev != 0 && !job.live && !w.placed(s, j):
			do("job %d is removed with its record (it was at revision %d)", j, job.rev, func(s *state) {
				w.write(s, func() { w.reset(s, j, jobAt(0, false)) })
			})
		case job.rev == 0 && int(s.creations) < w.Creations:
			do("job %d comes again (at revision %d)", j, s.rev+1, func(s *state) {
				s.creations++
				w.write(s, func() { w.reset(s, j, jobAt(s.rev, true)) })
			})
		}
	}
}

func jobAt(rev uint8, live bool) job { return job{rev: rev, live: live} }

// placed says whether a job has a live placement.
func (w *world) placed(s *state, job uint8) bool {
	for i, spec := range w.Slots {
		if spec.Job == int(job) && s.store.slots[i].txn != 0 {
			return true
		}
	}
	return false
}

// reset gives a job another record and no ended attempts.
func (w *world) reset(s *state, j uint8, record job) {
	s.store.jobs[j] = record
	for i, spec := range w.Slots {
		if spec.Job == int(j) {
			s.store.slots[i].ended, s.used[i] = 0, 0
		}
	}
}

// keeperSteps read a job of which each slot has run and none does, and later hand its
// removal to the store. A scheduler may have tried a slot again meanwhile.
func (w *world) keeperSteps(s *state, do doer) {
	if r := s.removal; r.jobRev != 0 {
		do("the store receives the removal of job %d's records (read at its revision %d)", r.job, r.jobRev, w.remove)
		return
	}
	for _, spec := range w.Slots {
		j := uint8(spec.Job)
		if s.store.jobs[j].live && w.finished(s, j) && int(s.removals) < w.Removals {
			do("the keeper finds job %d done (it is at revision %d)", j, s.store.jobs[j].rev, func(s *state) {
				s.removals++
				s.removal = removal{job: j, jobRev: s.store.jobs[j].rev}
				for i := range w.Slots {
					s.removal.ended[i] = s.store.slots[i].ended
				}
			})
		}
	}
}

func (w *world) finished(s *state, job uint8) bool {
	for i, spec := range w.Slots {
		if slot := s.store.slots[i]; spec.Job == int(job) && (slot.txn != 0 || slot.ended == 0) {
			return false
		}
	}
	return true
}

// remove marks a job done and removes its tasks' records, in one revision.
func (w *world) remove(s *state) {
	r := s.removal
	s.removal = removal{}
	if s.store.jobs[r.job].rev != r.jobRev {
		return
	}
	for i, spec := range w.Slots {
		slot := s.store.slots[i]
		if w.Range && spec.Job == int(r.job) && (slot.txn != 0 || slot.ended&^r.ended[i] != 0) {
			return
		}
	}
	w.write(s, func() {
		s.store.jobs[r.job] = jobAt(s.rev, false)
		for i, spec := range w.Slots {
			if spec.Job == int(r.job) {
				s.store.slots[i] = slot{}
			}
		}
	})
}
