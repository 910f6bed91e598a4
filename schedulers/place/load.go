package place

import (
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers"
)

// Load counts the tasks of the job at work on each node, what is claimed and given back
// included, and says which nodes may have another one before the score is asked. There
// is one at a time; it ends with the job's turn.
type Load struct {
	t     *Table
	job   *cellstate.Job
	nodes [2][]int32 // at least those with a task; the second are those that have devices
	moved [2]uint64  // counts the changes of their counts
	// Nodes with no more than first tasks are taken before any other; those with more one
	// after the other up to last, as long as they do not fit.
	first, last int32
}

// Spread is a load by which nodes with fewer tasks of the job come first. Like AtMost it is
// nil, which Choose takes, where it would change nothing: the job has no task and wants one.
func (r *Round) Spread(w schedulers.Work) *Load { return r.newLoad(w, 0, banned-1) }

// AtMost is a load by which no node gets more than so many tasks of the job, at least 1.
func (r *Round) AtMost(w schedulers.Work, most int32) *Load {
	most = max(1, most)
	return r.newLoad(w, most-1, most-1)
}

func (r *Round) newLoad(w schedulers.Work, first, last int32) *Load {
	r.unload()
	l := &Load{t: r.t, job: w.Job, first: first, last: last}
	for _, task := range w.Job.Tasks {
		if task.Placement == nil {
			continue
		}
		if i, known := r.t.index[cellstate.NodeName(task.Placement.GetNode())]; known {
			l.count(i, 1)
		}
	}
	if len(l.nodes[0])+len(l.nodes[1]) == 0 && len(w.Needs) < 2 {
		return nil
	}
	r.load = l
	return l
}

// count adds tasks to a node.
func (l *Load) count(i int, tasks int32) {
	of := 0
	if len(l.t.candidates[i].GPUs) > 0 {
		of = 1
	}
	l.moved[of]++
	if l.t.counts[i] == 0 {
		l.nodes[of] = append(l.nodes[of], int32(i))
	}
	l.t.counts[i] += tasks
}

// unload ends the present load.
func (r *Round) unload() {
	if r.load == nil {
		return
	}
	for _, nodes := range r.load.nodes {
		for _, i := range nodes {
			r.t.counts[i] = 0
		}
	}
	r.load, r.bans = nil, bans{}
}
