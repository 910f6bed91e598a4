package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestAgenda holds an agenda against a plain list of who is due when.
func TestAgenda(t *testing.T) {
	chance := rand.New(rand.NewPCG(7, 7))
	var a agenda
	now := time.Unix(0, 0)
	entries, due := make([]*entry, 20), map[*entry]time.Time{} // the zero time: touched
	for i := range entries {
		entries[i] = &entry{id: fmt.Sprint(i)}
	}
	for range 5000 {
		e := entries[chance.IntN(len(entries))]
		at := now.Add(time.Duration(1 + chance.IntN(50)))
		touched := due[e].IsZero() && slices.Contains(a.touched, e)
		switch chance.IntN(5) {
		case 0:
			a.touch(e)
			due[e] = time.Time{}
		case 1, 2:
			if a.wake(e, at); !touched {
				due[e] = at
			}
		case 3:
			if a.wake(e, time.Time{}); !touched {
				delete(due, e)
			}
		default:
			now = now.Add(time.Duration(chance.IntN(30)))
			next := a.next()
			var want []string
			for e, at := range due {
				if at.IsZero() || !at.After(now) {
					want = append(want, e.id)
					delete(due, e)
				}
				if !at.IsZero() && (next.IsZero() || at.Before(next)) {
					t.Fatalf("next is %v, and %s is due at %v", next, e.id, at)
				}
			}
			var got []string
			for _, e := range a.take(now) {
				got = append(got, e.id)
			}
			slices.Sort(got)
			slices.Sort(want)
			equal(t, "taken", got, want)
		}
	}
}
