package schedulers

import (
	"cmp"
	"time"

	"github.com/ohmcell/ohm/cellstate"
)

// EvictionLimits are what a Runner lets its policy evict. None of them keeps the cell right,
// which the transaction does; they keep it calm.
type EvictionLimits struct {
	PerMinute int           // victims of this instance; below zero: nothing is evicted
	PerTask   int           // what was evicted so often is left alone; below zero: it never is
	MinRun    time.Duration // so long after it was placed a task is left alone; below zero: not at all
}

// DefaultEvictionLimits are those that a cell goes by.
func DefaultEvictionLimits() EvictionLimits {
	return EvictionLimits{PerMinute: 600, PerTask: 5, MinRun: 10 * time.Second}
}

func (l EvictionLimits) filled() EvictionLimits {
	d := DefaultEvictionLimits()
	return EvictionLimits{cmp.Or(l.PerMinute, d.PerMinute), cmp.Or(l.PerTask, d.PerTask), cmp.Or(l.MinRun, d.MinRun)}
}

// evicts counts victims by the minute.
type evicts struct {
	since time.Time // of the minute
	count int
}

// note counts the victims that a transaction names.
func (e *evicts) note(now time.Time, txn *cellstate.Txn) {
	victims := map[cellstate.Slot]bool{} // several claims may name the same
	for _, c := range txn.Claims {
		for _, v := range c.Victims {
			victims[cellstate.SlotOf(v.GetSlot())] = true
		}
	}
	if now.Sub(e.since) >= time.Minute {
		e.since, e.count = now, 0
	}
	e.count += len(victims)
}

// mayEvict is what the policy may evict in its next call.
func (r *Runner) mayEvict() Evictions {
	limits, now := r.Config.Evictions, r.Clock()
	if limits.PerMinute < 0 {
		return Evictions{}
	}
	left := limits.PerMinute
	if now.Sub(r.evicts.since) < time.Minute {
		left = max(0, left-r.evicts.count)
	}
	return Evictions{Most: left, Now: now, MinRun: max(0, limits.MinRun), PerTask: max(0, limits.PerTask)}
}
