package agent

import (
	"sync"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// outbox holds the newest unsent status of each task, oldest task first.
type outbox struct {
	bell chan struct{} // rings when something was put; holds one

	mu      sync.Mutex
	pending map[string]*ohmv1.Status
	order   []string
}

func newOutbox() *outbox {
	return &outbox{bell: make(chan struct{}, 1), pending: map[string]*ohmv1.Status{}}
}

func (o *outbox) put(id string, s *ohmv1.Status) {
	o.mu.Lock()
	if o.pending[id] == nil {
		o.order = append(o.order, id)
	}
	o.pending[id] = s
	o.mu.Unlock()
	ring(o.bell)
}

// clear forgets everything: a new session is told anew.
func (o *outbox) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.pending)
	o.order = nil
}

// take gives back at most so many statuses.
func (o *outbox) take(most int) []*ohmv1.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(most, len(o.order))
	batch := make([]*ohmv1.Status, 0, n)
	for _, id := range o.order[:n] {
		batch = append(batch, o.pending[id])
		delete(o.pending, id)
	}
	o.order = o.order[n:]
	return batch
}
