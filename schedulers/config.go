package schedulers

import (
	"cmp"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/pkg/names"
)

// Config is what a Runner is made of.
type Config struct {
	Cell      Cell      // a running mirror
	Store     Store     // the store that it follows
	Scheduler Scheduler // the policy
	Name      string    // under which jobs ask for this scheduler: a DNS label
	Instance  string    // of this process among those of the same name: a DNS label
	Policy    string    // the policy's name, for people; default: Name
	Version   string    // of the program, for people
	BuiltIn   bool      // a scheduler that Ohm brings along
	Log       *zap.Logger
	Clock     func() time.Time // default: time.Now
	Times     Times            // what is zero is as in DefaultTimes
	// HoldAfter is how often a slot, or a gang, loses before room is held for it;
	// default: DefaultHoldAfter.
	HoldAfter int
	Evictions EvictionLimits // what is zero is as in DefaultEvictionLimits
}

// DefaultHoldAfter is enough for two that race now and then to part by themselves.
const DefaultHoldAfter = 5

// Times are a Runner's time limits.
type Times struct {
	Lease     time.Duration // of the registration: how long a dead instance still counts
	Seen      time.Duration // how often it is noted durably that the scheduler is there
	Sweep     time.Duration // after which a parked slot is tried again although nothing changed
	Conflicts time.Duration // that an entry of the conflict journal lives
	Words     time.Duration // at least this long between two batches of last words
	RetryMost time.Duration // the longest pause after repeated losses, and after errors
	Seek      time.Duration // that room is looked for, to be held for what keeps losing
	Reserve   time.Duration // that the head of the queue gets no room before room is reserved for it
	Yield     time.Duration // that room which comes free is left to higher precedence of other schedulers
	Hold      time.Duration // that a hold lives at most, whatever becomes of its owner
}

// DefaultTimes are the times that a cell goes by.
func DefaultTimes() Times {
	return Times{
		Lease:     10 * time.Second,
		Seen:      15 * time.Second,
		Sweep:     10 * time.Second,
		Conflicts: time.Hour,
		Words:     100 * time.Millisecond,
		RetryMost: 2 * time.Second,
		Seek:      5 * time.Second,
		Hold:      2 * time.Minute,
		Reserve:   2 * time.Second,
		Yield:     250 * time.Millisecond,
	}
}

// filled is the configuration with its defaults, or what is wrong with it.
func (c Config) filled() (Config, error) {
	if c.Cell == nil || c.Store == nil || c.Scheduler == nil {
		return c, fmt.Errorf("scheduler %q needs a cell, a store and a policy", c.Name)
	}
	if err := cmp.Or(names.Check("scheduler name", c.Name), names.Check("name of the instance", c.Instance)); err != nil {
		return c, err
	}
	if c.Policy == "" {
		c.Policy = c.Name
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	c.Log = c.Log.With(zap.String("scheduler", c.Name), zap.String("instance", c.Instance))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.HoldAfter <= 0 {
		c.HoldAfter = DefaultHoldAfter
	}
	c.Evictions = c.Evictions.filled()
	d := DefaultTimes()
	for _, t := range []struct{ value, otherwise *time.Duration }{
		{&c.Times.Lease, &d.Lease}, {&c.Times.Seen, &d.Seen}, {&c.Times.Sweep, &d.Sweep},
		{&c.Times.Conflicts, &d.Conflicts}, {&c.Times.Words, &d.Words}, {&c.Times.RetryMost, &d.RetryMost},
		{&c.Times.Seek, &d.Seek}, {&c.Times.Yield, &d.Yield}, {&c.Times.Hold, &d.Hold}, {&c.Times.Reserve, &d.Reserve},
	} {
		if *t.value <= 0 {
			*t.value = *t.otherwise
		}
	}
	return c, nil
}
