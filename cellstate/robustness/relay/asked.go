package relay

import "sync"

// Deed is what a relay can be asked to do to one message.
type Deed int

// The deeds.
const (
	// Hold keeps a commit of placements back until Release. Its sender may be gone by then.
	Hold Deed = iota
	// LoseReply lets a commit of placements be applied and answers that the connection broke.
	LoseReply
	// SwallowReply lets a commit of placements be applied and never answers.
	SwallowReply
	// DropChanges loses one response of a watch that has changes.
	DropChanges
	// RepeatChanges sends one such response twice.
	RepeatChanges
)

// Asked is a deed that a relay was asked for.
type Asked struct {
	// Done is closed once it has been done: for Hold when the commit is there, for the others
	// when the message has had its fate.
	Done <-chan struct{}

	relay    *Relay
	deed     Deed
	done     chan struct{}
	released chan bool // whether to forward; holds one
	once     sync.Once
}

// Ask has a deed done to the next message that it is for.
func (r *Relay) Ask(d Deed) *Asked {
	done := make(chan struct{})
	a := &Asked{Done: done, relay: r, deed: d, done: done, released: make(chan bool, 1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked[d] = append(r.asked[d], a)
	return a
}

// Release lets a commit that is held go on to etcd, or be lost on its way there.
func (a *Asked) Release(forward bool) { a.once.Do(func() { a.released <- forward }) }

// Withdraw takes back what has not been done yet.
func (a *Asked) Withdraw() {
	a.relay.mu.Lock()
	defer a.relay.mu.Unlock()
	all := a.relay.asked[a.deed]
	for i, other := range all {
		if other == a {
			a.relay.asked[a.deed] = append(all[:i:i], all[i+1:]...)
			return
		}
	}
}

// take is the next deed of one of these kinds that is asked for; nil: none.
func (r *Relay) take(deeds ...Deed) *Asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range deeds {
		if all := r.asked[d]; len(all) > 0 {
			r.asked[d] = all[1:]
			return all[0]
		}
	}
	return nil
}
