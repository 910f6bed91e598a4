package packing

import (
	"time"

	"github.com/ohmcell/ohm/cmd/ohm/openb"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
)

// together is how many tasks one call of a policy places, as in a cell at work.
const together = 64

// filled is what came of offering a list of tasks, of which none leaves.
type filled struct {
	gpus      float64 // percent allocated
	first     int     // task refused, from 1; 0: none
	refused   int
	conflicts float64       // per commit
	decision  time.Duration // of the policy, for one task
	curve     []point
}

// point of a curve: what was asked for so far and what of it is allocated, in percent of the GPUs.
type point struct{ asked, allocated float64 }

// fill offers a list to instances of a contender, so many tasks at a time; what lost a
// race is offered again with the next ones.
func fill(nodes []*ohmv1.Node, tasks []openb.Task, of contender, instances []schedulers.Home, at int) (out filled, err error) {
	c, err := newCell(nodes, tasks, of, instances)
	if err != nil {
		return out, err
	}
	type numbered struct {
		openb.Task
		number int
	}
	var again []numbered
	asked := int64(0)
	for from := 0; from < len(tasks) || len(again) > 0; from += at {
		work := again
		again = nil
		for i := from; i < min(from+at, len(tasks)); i++ {
			work = append(work, numbered{tasks[i], i + 1})
			asked += wants(tasks[i])
		}
		list := make([]openb.Task, len(work))
		for i, w := range work {
			list[i] = w.Task
		}
		verdicts, err := c.offer(list)
		if err != nil {
			return out, err
		}
		for i, v := range verdicts {
			switch v {
			case refused:
				if out.refused++; out.first == 0 || work[i].number < out.first {
					out.first = work[i].number
				}
			case lost:
				again = append(again, work[i])
			}
		}
		out.curve = append(out.curve, point{100 * float64(asked) / float64(c.gpus), c.percent()})
	}
	out.gpus = c.percent()
	out.conflicts = float64(c.conflicts) / float64(max(1, c.commits))
	out.decision = c.busy / time.Duration(max(1, c.decided))
	return out, nil
}

// wants is what a task asks for, in thousandths of a GPU.
func wants(t openb.Task) int64 {
	g := t.Job.GetGroups()[0].GetGpus()
	return int64(g.GetCount()) * int64(share(g))
}

// needed is the smallest part of the nodes, in percent, on which no more than a part of the tasks
// is refused; nodes are in the order in which they are taken.
func needed(nodes []*ohmv1.Node, tasks []openb.Task, of contender, mayWait float64) (float64, error) {
	enough, short := len(nodes), 0
	for enough-short > max(1, len(nodes)/1000) {
		middle := (enough + short) / 2
		out, err := fill(nodes[:middle], tasks, of, alone, together)
		if err != nil {
			return 0, err
		}
		if float64(out.refused) <= mayWait*float64(len(tasks)) {
			enough = middle
		} else {
			short = middle
		}
	}
	return 100 * float64(enough) / float64(len(nodes)), nil
}
