package chaos

import (
	"math/rand/v2"
	"time"
)

// random is chance by a seed.
type random struct{ *rand.Rand }

func newRand(seed uint64) *random { return &random{rand.New(rand.NewPCG(seed, 2))} }

// upTo is a duration below d, in whole milliseconds.
func (r *random) upTo(d time.Duration) time.Duration {
	return time.Duration(r.Int64N(max(1, d.Milliseconds()))) * time.Millisecond
}
