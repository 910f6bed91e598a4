package bench

import (
	"math"
	"sync"
	"time"
)

// The buckets of latencies grow by 3%, from 10 µs to half an hour.
const (
	leastLatency = 0.01 // ms
	bucketGrowth = 1.03
	bucketCount  = 660
)

// latencies are counted in buckets, so that an hour of them takes no more room than a
// second. A value can be copied, and the difference of two is what came between.
type latencies [bucketCount]uint32

func (l *latencies) add(d time.Duration) {
	ms := float64(d.Microseconds()) / 1000
	bucket := 0
	if ms > leastLatency {
		bucket = min(bucketCount-1, int(math.Log(ms/leastLatency)/math.Log(bucketGrowth)))
	}
	l[bucket]++
}

// minus is what came after an earlier copy.
func (l latencies) minus(earlier latencies) latencies {
	for i := range l {
		l[i] -= earlier[i]
	}
	return l
}

func (l latencies) count() (n int) {
	for _, k := range l {
		n += int(k)
	}
	return n
}

// quantiles are right to 1.5%.
func (l latencies) quantiles() Quantiles {
	total := l.count()
	at := func(q float64) float64 {
		rank, seen := int(q*float64(total)), 0
		for i, n := range l {
			if seen += int(n); seen > rank {
				return round(leastLatency*math.Pow(bucketGrowth, float64(i)+0.5), 2)
			}
		}
		return 0 // there are none
	}
	return Quantiles{at(0.50), at(0.99)}
}

// clock gathers latencies of a window from several goroutines.
type clock struct {
	mu    sync.Mutex
	all   latencies
	first latencies // of before the window
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.add(d)
}

func (c *clock) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first = c.all
}

// end is how many there were since begin, and their quantiles.
func (c *clock) end() (n int, q Quantiles) {
	c.mu.Lock()
	defer c.mu.Unlock()
	window := c.all.minus(c.first)
	return window.count(), window.quantiles()
}
