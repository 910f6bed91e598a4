// Package lifecycle runs the parts of a process together and ends them in reverse
// order, so that what others lean on goes last.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
)

// Part is one part of a process. Run works until its context ends and then returns nil;
// an earlier return ends the whole process.
type Part struct {
	Name string
	Run  func(ctx context.Context) error
}

// Run starts the parts in order and waits. When ctx ends, or a part does, the parts
// are ended from the last to the first, each only when the one after it has returned.
// It returns the parts' errors.
func Run(ctx context.Context, parts ...Part) error {
	type running struct {
		cancel context.CancelFunc
		done   chan struct{}
		err    error
	}
	started := make([]*running, len(parts))
	ended := make(chan struct{}, len(parts))
	for i, p := range parts {
		inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := &running{cancel: cancel, done: make(chan struct{})}
		started[i] = r
		go func() {
			defer close(r.done)
			defer func() { ended <- struct{}{} }()
			if err := p.Run(inner); err != nil {
				r.err = fmt.Errorf("%s: %w", p.Name, err)
			} else if inner.Err() == nil {
				r.err = fmt.Errorf("%s ended by itself", p.Name)
			}
		}()
	}
	if len(parts) > 0 {
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}
	var errs []error
	for i := len(started) - 1; i >= 0; i-- {
		started[i].cancel()
		<-started[i].done
		errs = append(errs, started[i].err)
	}
	return errors.Join(errs...)
}
