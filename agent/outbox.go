package agent

import (
	"sync"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// outbox holds the newest unsent status of each task, oldest task first.
type outbox struct {
	bell chan struct{} // rings when something was put; holds one

	mu      sync.Mutex
	pending map[string]*ohmv1.Status
	order   []string
	ends    int // of pending
}

func newOutbox() *outbox {
	return &outbox{bell: make(chan struct{}, 1), pending: map[string]*ohmv1.Status{}}
}

func (o *outbox) put(id string, s *ohmv1.Status) {
	o.mu.Lock()
	if o.pending[id] == nil {
		o.order = append(o.order, id)
	}
	o.count(o.pending[id], -1)
	o.count(s, 1)
	o.pending[id] = s
	o.mu.Unlock()
	ring(o.bell)
}

// clear forgets everything: a new session is told anew.
func (o *outbox) clear() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.pending)
	o.order, o.ends = nil, 0
}

// count keeps the number of ends. The caller holds mu.
func (o *outbox) count(s *ohmv1.Status, by int) {
	if task.Ended(s.GetState()) {
		o.ends += by
	}
}

// due is when what is pending should be sent: soon where nothing was sent of late. A node
// on which much happens is heard less often, of more tasks at once: an end, which somebody
// waits for, a few times a second, and that a task runs once.
func (o *outbox) due(now, last time.Time, batch, pace time.Duration) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ends > 0 {
		pace /= 4
	}
	if paced := last.Add(pace); paced.After(now.Add(batch)) {
		return paced
	}
	return now.Add(batch)
}

// take gives back at most so many statuses.
func (o *outbox) take(most int) []*ohmv1.Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(most, len(o.order))
	batch := make([]*ohmv1.Status, 0, n)
	for _, id := range o.order[:n] {
		batch = append(batch, o.pending[id])
		o.count(o.pending[id], -1)
		delete(o.pending, id)
	}
	o.order = o.order[n:]
	return batch
}
