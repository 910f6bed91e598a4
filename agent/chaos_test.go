package agent

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// TestChaos lets assignments come and go while agents are killed, sessions break, the
// journal is damaged, processes end or will not, and the driver fails; and checks what
// must hold at all times and in the end. Each seed is another history.
func TestChaos(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) { newChaos(w, seed).run() })
		})
	}
}

type chaos struct {
	*world
	rand    *rand.Rand
	desired map[string]*ohmv1.Assignment
	ever    int
	starts  map[string]int
}

func newChaos(w *world, seed uint64) *chaos {
	w.config.Steps = 3
	c := &chaos{world: w, rand: rand.New(rand.NewPCG(seed, 1)), desired: map[string]*ohmv1.Assignment{}, starts: map[string]int{}}
	c.m.slow = time.Duration(c.rand.IntN(1500)) * time.Millisecond
	return c
}

func (c *chaos) run() {
	c.start().complete()
	for range 60 {
		c.act()
		c.pass(time.Duration(c.rand.IntN(4000)) * time.Millisecond)
		c.check()
	}
	c.m.locked(func() {
		clear(c.m.immortal)
		clear(c.m.unseen)
		c.m.quiet = false
	})
	c.reconnect()
	c.pass(3 * time.Minute)
	c.check()
	c.settled()
}

// one of the desired tasks, or nil.
func (c *chaos) one() *ohmv1.Assignment {
	ids := slices.Sorted(maps.Keys(c.desired))
	if len(ids) == 0 {
		return nil
	}
	return c.desired[ids[c.rand.IntN(len(ids))]]
}

func (c *chaos) act() {
	a := c.one()
	switch n := c.rand.IntN(14); {
	case n < 4 || a == nil:
		c.ever++
		a := assignment(fmt.Sprintf("j%d", c.ever), int64(500+500*c.rand.IntN(4)))
		// The cell never plans for more than there is; what runs it does not know.
		sum := a.GetPlacement().GetResources().GetCpuMilli()
		for _, d := range c.desired {
			sum += d.GetPlacement().GetResources().GetCpuMilli()
		}
		if sum > 4000 {
			return
		}
		c.m.locked(func() { c.m.stubborn[a.Id], c.m.immortal[a.Id] = c.rand.IntN(3) == 0, c.rand.IntN(6) == 0 })
		c.desired[a.Id] = a
		c.tell(nil, a)
	case n < 6:
		stop := assignment(a.GetPlacement().GetSlot().GetJob(), a.GetPlacement().GetResources().GetCpuMilli(), stopFor(task.Drained))
		c.desired[a.Id] = stop
		c.tell(nil, stop)
	case n < 8:
		delete(c.desired, a.Id)
		c.tell([]string{a.Id})
	case n < 10:
		c.m.exit(a.Id, c.rand.IntN(2))
	case n == 10:
		close(c.session().end)
		c.pass(10 * time.Second)
		c.reconnect()
	case n == 11:
		c.halt()
		c.pass(time.Duration(c.rand.IntN(20)) * time.Second)
		if c.rand.IntN(3) == 0 {
			c.damage()
		}
		c.start()
		c.all()
	case n == 12:
		broken := c.rand.IntN(2) == 0
		c.m.locked(func() {
			clear(c.m.unseen)
			if broken {
				c.m.unseen[a.Id] = errors.New("broken")
			}
		})
	case n == 13:
		quiet := c.rand.IntN(2) == 0
		c.m.locked(func() { c.m.quiet = quiet })
	}
}

// damage tears off the end of the journal.
func (c *chaos) damage() {
	path := filepath.Join(c.config.Dir, "journal")
	info, err := os.Stat(path)
	if err != nil {
		return // never written
	}
	if err := os.Truncate(path, c.rand.Int64N(info.Size()+1)); err != nil {
		c.t.Error(err)
	}
}

func (c *chaos) tell(removed []string, a ...*ohmv1.Assignment) { c.incremental(removed, a...) }

func (c *chaos) all() { c.complete(slices.Collect(maps.Values(c.desired))...) }

func (c *chaos) reconnect() {
	x := c.session()
	c.mu.Lock()
	over := x.over
	c.mu.Unlock()
	if over {
		c.pass(10 * time.Second)
	}
	c.all()
}

// check checks A2, A3 and the order of reports.
func (c *chaos) check() {
	c.t.Helper()
	for _, call := range c.m.did() {
		if id, ok := strings.CutPrefix(call, "start "); ok {
			if c.starts[id]++; c.starts[id] > 1 {
				c.t.Fatalf("%s was started again", id)
			}
		}
	}
	if peak, _ := c.m.peaks(); peak > 4000 {
		c.t.Fatalf("processes of %d at the same time", peak)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.sessions {
		last := map[string]task.State{}
		for _, s := range x.statuses {
			if id := taskID(s); s.GetState() < last[id] {
				c.t.Fatalf("%s went back from %s to %s", id, task.Name(last[id]), task.Name(s.GetState()))
			}
			last[taskID(s)] = s.GetState()
		}
	}
}

// settled checks A4 and that the server knows how every desired task stands.
func (c *chaos) settled() {
	c.t.Helper()
	for _, id := range c.m.knows() {
		if c.desired[id] == nil {
			c.t.Errorf("%s is not desired and still there", id)
		}
	}
	for id, a := range c.desired {
		o, here, _ := c.m.Observe(c.t.Context(), id)
		st := c.last(id)
		alive := here && !task.Ended(o.State)
		switch {
		case st == nil:
			c.t.Errorf("nothing was told of %s: %+v", id, o)
		case a.GetStopCause() != "" && !task.Ended(st.GetState()):
			c.t.Errorf("%s is to be stopped and told as %v", id, st)
		case alive != (st.GetState() == task.Running):
			c.t.Errorf("%s is %+v and told as %v", id, o, st)
		case here && o.Cause == task.Exited && st.GetExitCode() != int32(o.ExitCode):
			c.t.Errorf("%s ended with %d and is told as %v", id, o.ExitCode, st)
		}
	}
}
