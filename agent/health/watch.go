package health

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Check is a check with the probe that it makes. A probe ends with its context, and says
// in its error what is wrong, in one line for people.
type Check struct {
	Rules
	Probe func(ctx context.Context) error
}

// Watch probes one task, which started then, until ctx ends or it is dead, and calls
// changed with every verdict that differs from the one before, first. ready and live may be
// nil. slots bounds the probes of all tasks that share it.
func Watch(ctx context.Context, first Verdict, started time.Time, ready, live *Check, slots chan struct{}, changed func(Verdict)) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var mu sync.Mutex // guards state; held over changed, so that the calls are in order
	state := State{Ready: first.Ready, Dead: first.Dead, Why: first.Why}
	answer := func(after func(State) State) {
		mu.Lock()
		defer mu.Unlock()
		was := state.Verdict()
		if state = after(state); state.Verdict() != was && ctx.Err() == nil {
			changed(state.Verdict())
		}
		if state.Dead {
			end()
		}
	}
	var both sync.WaitGroup
	if ready != nil {
		both.Go(func() {
			ready.repeat(ctx, slots, func(bad error) {
				answer(func(s State) State { return s.Readied(ready.Rules, bad) })
			})
		})
	}
	if live != nil {
		both.Go(func() {
			live.repeat(ctx, slots, func(bad error) {
				age := time.Since(started)
				answer(func(s State) State { return s.Lived(live.Rules, age, bad) })
			})
		})
	}
	both.Wait()
}

// repeat probes until ctx ends. Probes of many tasks that began together come apart.
func (c *Check) repeat(ctx context.Context, slots chan struct{}, answered func(bad error)) {
	timer := time.NewTimer(time.Duration(rand.Float64() * float64(min(c.Interval, time.Second)) / 4))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		bad := c.once(ctx)
		<-slots
		if ctx.Err() != nil {
			return // cut short: it says nothing
		}
		answered(bad)
		timer.Reset(c.Interval)
	}
}

func (c *Check) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.Probe(ctx)
}
