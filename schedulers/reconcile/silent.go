package reconcile

import (
	"fmt"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
)

// What a job wants for its tasks on a node that nothing is heard of (WhenSilent.then). While
// such a task stands in the store it is the slot's only one, and goes on if its node comes
// back. Once it has been given up, a process of it that is still there is ended when the node
// is back: what stands in the store survives, nothing else.
const (
	Replace = "replace" // given up after a while, and replaced
	Keep    = "keep"    // likewise, after a long while
	Never   = "never"   // given up after a while; the slot has failed
)

// When the next attempt of a drained task may start (StopPolicy.replace).
const (
	AfterExit = "afterExit"
	AtOnce    = "atOnce" // when it has been asked to end
)

// Patience is how long a node may be silent until a placement on it is given up: as its job
// says in its present version, and where it says nothing, usual, or long where it is to be
// kept. What is not wanted any more is not worth a long wait.
func Patience(j *cellstate.Job, usual, long time.Duration) time.Duration {
	if j == nil || !j.Live() {
		return usual
	}
	w := j.Record.GetSpec().GetWhenSilent()
	switch {
	case w.GetAfter() != nil:
		return w.GetAfter().AsDuration()
	case w.GetThen() == Keep:
		return long
	}
	return usual
}

// HandsOver says whether a task that is drained makes way for its next attempt before it
// has exited: its job wants that, its node drains, and the agent has asked it to end.
func HandsOver(j *cellstate.Job, t *cellstate.Task, n *cellstate.Node) bool {
	return j.Live() && n.Intent.GetDrain() && j.Record.GetSpec().GetStop().GetReplace() == AtOnce &&
		t.Status.GetState() == task.Stopping && StopCause(j, t.Placement, n) == task.Drained
}

// BrakeMeta is the name of the meta record that is there while nothing is given up because
// too many nodes are silent at once. Its value is a sentence.
const BrakeMeta = "brake"

// onSilentNodes says of a job with tasks on silent nodes that it has, and what is waited for;
// empty if there are none.
func (d *judged) onSilentNodes() string {
	n, example := 0, cellstate.NodeName("")
	for _, t := range d.job.Tasks {
		if t.Placement == nil {
			continue
		}
		if node := d.snapshot.Node(cellstate.NodeName(t.Placement.GetNode())); node != nil && node.Facts != nil && node.Alive == nil {
			n++
			example = node.Name
		}
	}
	if n == 0 {
		return ""
	}
	text := fmt.Sprintf("%s on node %s, which is silent", tasksText(n), example)
	if n > 1 {
		text = fmt.Sprintf("%s on silent nodes, such as %s", tasksText(n), example)
	}
	if brake, _ := d.snapshot.Meta(BrakeMeta); brake != nil {
		text += ": " + brake.GetValue()
	}
	return text
}
