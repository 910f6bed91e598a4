package packing

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cmd/ohm/openb"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// In the steady state tasks come and go, at such a rate that on average the GPUs of demand
// would be in use if all found their place.
const (
	demand  = 0.9
	longest = 6 * time.Hour // that a task stays: 1% of the recorded ones have nine tenths of the GPU time, and would never go
	span    = 4 * time.Hour
)

// atRest is what a steady state comes to: of the GPUs, in percent, those in use in the mean
// over time; of the GPU time that was asked for, in percent, that of refused tasks.
type atRest struct{ used, refused float64 }

// steady follows a cell in the steady state. It begins in it: with tasks of which some are about to
// end, as many of each as would be there. Who is refused goes away, so that all contenders are
// asked for the same.
func steady(nodes []*ohmv1.Node, tasks []openb.Task, of contender, seed uint64) (out atRest, err error) {
	c, err := newCell(nodes, tasks, of, alone)
	if err != nil {
		return out, err
	}
	each := 0.0 // GPU time of a task in the mean, in thousandths of a GPU times seconds
	for _, t := range tasks {
		each += gpuTime(t) / float64(len(tasks))
	}
	rate := demand * float64(c.gpus) / each // tasks per second
	chance := rand.New(rand.NewPCG(seed, 3))
	crowd := &crowd{cell: c}

	var first []openb.Task
	for _, t := range tasks {
		t.Lasts = stays(t)
		for range int(math.Floor(rate*t.Lasts.Seconds()/float64(len(tasks)) + chance.Float64())) {
			left := t
			left.Lasts = time.Duration(chance.Float64() * float64(t.Lasts))
			first = append(first, left)
		}
	}
	chance.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	for len(first) > 0 {
		n := min(together, len(first))
		if _, err = crowd.offer(first[:n]); err != nil {
			return out, err
		}
		first = first[n:]
	}

	asked, lost, steps := 0.0, 0.0, 0
	var order []int // of those to come; each of the list in turn
	step := time.Duration(together / rate * float64(time.Second))
	for crowd.now < span {
		crowd.now += step
		if err := crowd.leave(); err != nil {
			return out, err
		}
		come := make([]openb.Task, together)
		for i := range come {
			if len(order) == 0 {
				order = chance.Perm(len(tasks))
			}
			come[i], order = tasks[order[0]], order[1:]
			come[i].Lasts = stays(come[i])
			asked += gpuTime(come[i])
		}
		refused, err := crowd.offer(come)
		if err != nil {
			return out, err
		}
		for _, t := range refused {
			lost += gpuTime(t)
		}
		out.used += c.percent()
		steps++
	}
	out.used /= float64(steps)
	out.refused = 100 * lost / asked
	return out, nil
}

func stays(t openb.Task) time.Duration { return min(t.Lasts, longest) }

func gpuTime(t openb.Task) float64 { return float64(wants(t)) * stays(t).Seconds() }

// crowd is the tasks of a cell that come and go.
type crowd struct {
	cell *cell
	now  time.Duration
	come int
	here ends
}

// offer lets tasks come, each under a name of its own, and returns those refused.
func (c *crowd) offer(tasks []openb.Task) (gone []openb.Task, err error) {
	for i := range tasks {
		c.come++
		job := proto.CloneOf(tasks[i].Job)
		job.Name = fmt.Sprintf("%s-%d", job.GetName(), c.come)
		tasks[i].Job = job
	}
	verdicts, err := c.cell.offer(tasks)
	for i, v := range verdicts {
		if t := tasks[i]; v == placed {
			heap.Push(&c.here, end{c.now + t.Lasts, t})
		} else {
			gone = append(gone, t)
		}
	}
	if err == nil {
		err = c.cell.end(gone)
	}
	return gone, err
}

// leave ends the tasks of which the time has come.
func (c *crowd) leave() error {
	var gone []openb.Task
	for len(c.here) > 0 && c.here[0].at <= c.now {
		gone = append(gone, heap.Pop(&c.here).(end).task)
	}
	return c.cell.end(gone)
}

// end takes tasks and their jobs away.
func (c *cell) end(tasks []openb.Task) error {
	var changes []cellstate.Change
	for _, t := range tasks {
		slot := slotOf(t)
		if row := c.snapshot.Job(slot.JobName()).Task(slot); row != nil && row.Placement != nil {
			for _, g := range row.Placement.GetGpus() {
				c.used -= int64(g.GetMilli())
			}
			changes = append(changes, cellstate.Change{Key: slot.PlacementKey(), Deleted: true})
		}
		changes = append(changes, cellstate.Change{Key: cellstate.JobKey(slot.JobName()), Deleted: true})
	}
	return c.apply(changes)
}

// end of a task.
type end struct {
	at   time.Duration
	task openb.Task
}

// ends are a heap, the first end on top.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
