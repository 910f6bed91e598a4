package schedulers

import "slices"

// order is the active entries of a queue in the order in which they are to be tried. A round
// takes from its beginning and seldom looks further. An entry that is not active any more
// stays until a walk comes upon it.
type order struct {
	entries  []*entry // each once
	unsorted bool     // the urgency of one has changed
	lane     bool     // it is of one namespace only, beside that of all
}

// in is where an entry notes that it stands in the order.
func (o *order) in(e *entry) *bool {
	if o.lane {
		return &e.laned
	}
	return &e.ordered
}

// add puts an entry into the order, unless it is there.
func (o *order) add(e *entry) {
	in := o.in(e)
	if *in {
		return
	}
	*in = true
	last := len(o.entries) - 1
	if o.unsorted || last < 0 || byUrgency(o.entries[last], e) <= 0 {
		o.entries = append(o.entries, e)
		return
	}
	at, _ := slices.BinarySearchFunc(o.entries, e, byUrgency)
	o.entries = slices.Insert(o.entries, at, e)
}

// moved says that the urgency of an entry has changed, or is about to.
func (o *order) moved(e *entry) { o.unsorted = o.unsorted || *o.in(e) }

// walk yields the active entries in order, until it is told to stop.
func (o *order) walk(yield func(*entry) bool) {
	if o.unsorted {
		slices.SortFunc(o.entries, byUrgency)
		o.unsorted = false
	}
	seen, on := 0, true
	for ; on && seen < len(o.entries); seen++ {
		if e := o.entries[seen]; e.active() {
			on = yield(e)
		}
	}
	// What is left of those that were seen moves up to those that were not.
	left := seen
	for i := seen - 1; i >= 0; i-- {
		if e := o.entries[i]; e.active() {
			left--
			o.entries[left] = e
		} else {
			*o.in(e) = false
		}
	}
	clear(o.entries[:left])
	o.entries = o.entries[left:]
}
