package task

// The causes with which an attempt ends. The set is closed: a status in an end state stores
// one of these, and ClassOf knows them all.
const (
	Exited        = "Exited"        // by itself, with Status.exit_code
	Signalled     = "Signalled"     // by Status.signal, and not because the cell wanted it
	OOMKilled     = "OOMKilled"     // for memory; the message has its limit and its peak
	StartFailed   = "StartFailed"   // as it is described it can start nowhere: no such program, user, folder
	ImageNotFound = "ImageNotFound" // the registry, or the node, has no such image
	ImageDenied   = "ImageDenied"   // the registry does not give it to this node
	TimedOut      = "TimedOut"      // maxRuntime
	Unhealthy     = "Unhealthy"     // its liveness check failed
	DiskExceeded  = "DiskExceeded"  // it wrote more than the disk that it asked for; the message has both

	PortBusy   = "PortBusy"   // somebody outside of the cell has a port of its (Status.busy_ports): it never ran
	DeviceLost = "DeviceLost" // a device of its is not there any more, or not well
	DiskFull   = "DiskFull"   // the node had no room to start it
	Refused    = "Refused"    // the node cannot take it: it is smaller, or can do less, than its record said

	NodeLost      = "NodeLost"      // its node went away; how it ended is not known
	StartDeadline = "StartDeadline" // it could not be started in time, though that was tried again and again
	UnknownExit   = "UnknownExit"   // it is over, and how it ended was lost with what watched over it

	Stop       = "Stopped" // the user stopped or changed the job
	Drained    = "Drained"
	Preempted  = "Preempted"
	GangBroken = "GangBroken" // its gang has lost members, and starts anew as a whole
)

// Class says who is answerable for the end of an attempt, and so whether it spends a retry.
type Class int

// The classes. Only a UserError spends a retry.
const (
	// UserError is the task's own doing, or its description's: the next attempt would likely
	// end the same way. A signal is one too, since who sent it cannot be told.
	UserError Class = iota + 1
	// NodeFault is the doing of the one node: elsewhere, or later, the task may run.
	NodeFault
	// Infrastructure is what stands between node and cell, or around the task: a node that is
	// gone, a registry that does not answer, a runtime that lost its word.
	Infrastructure
	// Wanted is an end that the cell asked for.
	Wanted
)

// ClassOf is the class of a cause. One of a later release, which is not known here, is a
// UserError, so that no cause leads to attempts without end.
func ClassOf(cause string) (class Class, known bool) {
	switch cause {
	case Exited, Signalled, OOMKilled, StartFailed, ImageNotFound, ImageDenied, TimedOut, Unhealthy, DiskExceeded:
		return UserError, true
	case PortBusy, DeviceLost, DiskFull, Refused:
		return NodeFault, true
	case NodeLost, StartDeadline, UnknownExit:
		return Infrastructure, true
	case Stop, Drained, Preempted, GangBroken:
		return Wanted, true
	}
	return UserError, false
}

// EndState is the end state of an attempt with that cause; code is the exit code of one
// that Exited.
func EndState(cause string, code int) State {
	class, _ := ClassOf(cause)
	switch {
	case cause == Exited && code == 0:
		return Succeeded
	case cause == NodeLost:
		return Lost
	case class == Wanted:
		return Stopped
	}
	return Failed
}
