package agent

import (
	"container/heap"
	"time"
)

// agenda is which tasks the next round decides on: those that something has happened to,
// and those whose time has come. A round costs what has changed, not what is there.
type agenda struct {
	touched []*entry // each once
	wakes   wakes
}

// touch has the task decided on in the next round.
func (a *agenda) touch(e *entry) {
	a.drop(e)
	if !e.touched {
		e.touched = true
		a.touched = append(a.touched, e)
	}
}

// wake has a task that nobody touches before decided on at a time; zero: never.
func (a *agenda) wake(e *entry, at time.Time) {
	if at.IsZero() || e.touched {
		a.drop(e)
		return
	}
	e.due = at
	if e.place == 0 {
		heap.Push(&a.wakes, e)
	} else {
		heap.Fix(&a.wakes, e.place-1)
	}
}

// drop takes the task's time off the agenda.
func (a *agenda) drop(e *entry) {
	if e.place > 0 {
		heap.Remove(&a.wakes, e.place-1)
	}
}

// take are the tasks of this round.
func (a *agenda) take(now time.Time) []*entry {
	for len(a.wakes) > 0 && !a.wakes[0].due.After(now) {
		a.touch(a.wakes[0])
	}
	taken := a.touched
	a.touched = nil
	for _, e := range taken {
		e.touched = false
	}
	return taken
}

// next is when the next time comes; zero: there is none.
func (a *agenda) next() time.Time {
	if len(a.wakes) == 0 {
		return time.Time{}
	}
	return a.wakes[0].due
}

// wakes is a heap of tasks, the first one due on top. A task in it knows its place,
// counted from 1.
type wakes []*entry

func (w wakes) Len() int           { return len(w) }
func (w wakes) Less(i, j int) bool { return w[i].due.Before(w[j].due) }
func (w wakes) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i+1, j+1
}

func (w *wakes) Push(e any) {
	*w = append(*w, e.(*entry))
	(*w)[len(*w)-1].place = len(*w)
}

func (w *wakes) Pop() any {
	last := len(*w) - 1
	e := (*w)[last]
	(*w)[last], e.place = nil, 0
	*w = (*w)[:last]
	return e
}
