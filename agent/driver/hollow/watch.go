package hollow

import (
	"container/heap"
	"context"
	"time"
)

// watch is one Watch: what it has still to say, and when tasks end. The driver's mu is held
// by whoever looks at it.
type watch struct {
	bell chan struct{} // rings when there is news; holds one
	news []string
	ends ends
}

// ending is when a task that nobody ends before ends by itself.
type ending struct {
	id   string
	task *hollow
	at   time.Time
}

// began notes a task that is new to the watch.
func (w *watch) began(id string, h *hollow) {
	if !h.ends.IsZero() {
		heap.Push(&w.ends, ending{id, h, h.ends})
	}
	w.say(id)
}

// ended notes a task that was ended before its time.
func (w *watch) ended(id string) { w.say(id) }

func (w *watch) say(id string) {
	w.news = append(w.news, id)
	select {
	case w.bell <- struct{}{}:
	default: // it rings already
	}
}

// Watch names every task once when it is first seen, and again when it has ended. It
// returns nil when ctx ends.
func (d *Driver) Watch(ctx context.Context, changed func(id string)) error {
	w := &watch{bell: make(chan struct{}, 1)}
	d.mu.Lock()
	d.watches[w] = true
	for id, h := range d.tasks {
		w.began(id, h)
	}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watches, w)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		news, next := d.look(w)
		for _, id := range news {
			changed(id)
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.bell:
		case <-timer.C:
		}
	}
}

// look takes what the watch has to say, and when the next task ends; zero: never.
func (d *Driver) look(w *watch) (news []string, next time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for now := time.Now(); len(w.ends) > 0; heap.Pop(&w.ends) {
		first := w.ends[0]
		if d.tasks[first.id] != first.task || !first.task.ends.Equal(first.at) {
			continue // it is gone, or was ended before
		}
		if first.at.After(now) {
			next = first.at
			break
		}
		w.news = append(w.news, first.id)
	}
	news, w.news = w.news, nil
	return news, next
}

// ends is a heap, the first end on top.
type ends []ending

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(ending)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = ending{}
	*e = (*e)[:last]
	return x
}
