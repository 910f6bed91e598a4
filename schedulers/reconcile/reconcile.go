// Package reconcile decides, from what is stored of a job and the time, what should
// become of its slots: which need a node now, which wait, which are over. It is pure
// and the same under every scheduler, a customer's own included: a policy only chooses
// where.
package reconcile

import (
	"time"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Need is a slot that needs a node now.
type Need struct {
	Slot    cellstate.Slot
	Attempt int // the number that its next attempt must have
	Group   *ohmv1.Group
}

// Decision is what reconcile says of one job.
type Decision struct {
	Needs []Need // by slot
	// Wake is when more slots will need a node although nothing changes (a backoff
	// ends, a gang times out); zero: never.
	Wake time.Time
	// Done is how the job ended, once nothing will ever start again under its version;
	// the keeper writes it into the job's record.
	Done   *ohmv1.Outcome
	Counts []*ohmv1.GroupCounts // by group, in the order of the job
	State  string               // Pending | Running | Stopping | Succeeded | Failed | Stopped
}
