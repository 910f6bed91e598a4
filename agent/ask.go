package agent

import (
	"context"
	"errors"
)

var errSlow = errors.New("the driver has not answered in time")

// ask puts a question to the driver, for as long as the present look may take: a driver
// that hangs, over one task or all, does not hold the loop up. It is not asked the same
// again before it has answered; what it says then is not heard.
func ask[T any](ctx context.Context, l *loop, what string, question func(context.Context) (T, error)) (T, error) {
	if l.instant {
		return question(ctx)
	}
	var none T
	if done := l.unanswered[what]; done != nil {
		select {
		case <-done:
			delete(l.unanswered, what)
		default:
			return none, errSlow
		}
	}
	asking, cancel := context.WithDeadlineCause(ctx, l.lookUntil, errSlow)
	defer cancel()
	if asking.Err() != nil {
		return none, context.Cause(asking)
	}
	type answer struct {
		said T
		err  error
	}
	answered := make(chan answer, 1)
	done := make(chan struct{})
	l.asking.Go(func() {
		defer close(done)
		said, err := question(asking)
		answered <- answer{said, err}
	})
	select {
	case a := <-answered:
		return a.said, a.err
	case <-asking.Done():
		l.unanswered[what] = done
		return none, context.Cause(asking)
	}
}
