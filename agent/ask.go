package agent

import (
	"context"
	"errors"
	"time"
)

var errSlow = errors.New("the driver has not answered in time")

// ask puts a question to the driver for as long as the present look may take. A driver
// that does not answer holds nothing up: it is asked the same again only when it has, and
// what it says then is not heard.
func ask[T any](ctx context.Context, l *loop, what string, question func(context.Context) (T, error)) (T, error) {
	var none T
	if l.unanswered[what] || !time.Now().Before(l.lookUntil) {
		return none, errSlow
	}
	type answer struct {
		said T
		err  error
	}
	asking, cancel := context.WithDeadlineCause(ctx, l.lookUntil, errSlow)
	answered := make(chan answer, 1)
	late := make(chan struct{})
	l.asking.Go(func() {
		defer cancel()
		said, err := question(asking)
		answered <- answer{said, err}
		select {
		case <-late:
			l.answers <- what
		default:
		}
	})
	select {
	case a := <-answered:
		return a.said, a.err
	case <-asking.Done():
	}
	_ = late
	return none, context.Cause(asking)
}
