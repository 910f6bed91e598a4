package schedulers

import (
	"maps"
	"sync"
	"time"
)

// Stats counts what a Runner has done since it began. They are for people and
// dashboards; what is true of the cell stands in the store.
type Stats struct {
	Decisions    int64            // slots that the policy was asked about
	Committed    int64            // claims
	Refused      map[string]int64 // claims, by reason
	Reservations int64            // for the head of the queue
	Holds        int64            // transactions for which room was held
	Busy         time.Duration    // spent deciding, decisions that lost included
	Errors       int64            // answers that the store did not give
	Jobs         int              // not done, that are this instance's
	Waiting      int              // slots of theirs without a node
}

// counters guards the Stats.
type counters struct {
	mu sync.Mutex
	s  Stats
}

func (c *counters) add(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.s)
}

func (c *counters) read() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.s
	s.Refused = maps.Clone(s.Refused)
	return s
}
