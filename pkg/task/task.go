// Package task holds the life cycle of a task: the states of one attempt, the
// order in which they follow each other, and the closed set of causes with which
// an attempt ends. It is pure and shared by everything that speaks of tasks.
package task

import (
	"fmt"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// State is where one attempt stands. States only move forward: a task runs once
// and is replaced under the next attempt number, never restarted under the same.
type State = ohmv1.TaskState

// The states, in order. The last four are end states.
const (
	Unknown   = ohmv1.TaskState_TASK_STATE_UNSPECIFIED
	Assigned  = ohmv1.TaskState_TASK_STATE_ASSIGNED // placed; the agent has done nothing yet
	Starting  = ohmv1.TaskState_TASK_STATE_STARTING
	Running   = ohmv1.TaskState_TASK_STATE_RUNNING
	Stopping  = ohmv1.TaskState_TASK_STATE_STOPPING
	Succeeded = ohmv1.TaskState_TASK_STATE_SUCCEEDED // exited 0 by itself
	Failed    = ohmv1.TaskState_TASK_STATE_FAILED    // ended badly by itself, or could not start
	Stopped   = ohmv1.TaskState_TASK_STATE_STOPPED   // ended because the cell wanted it
	Lost      = ohmv1.TaskState_TASK_STATE_LOST      // its node went away; how it ended is not known
)

// Order is s as it is compared with others. Of a state that only a later release knows, no
// more is said than that the task is there: it counts as Running, so that nothing replaces it.
func Order(s State) State {
	if s < Unknown || s > Lost {
		return Running
	}
	return s
}

// Ended says whether s is an end state.
func Ended(s State) bool { return Order(s) >= Succeeded }

// Name is s as people and JSON see it: "Running".
func Name(s State) string {
	name := strings.TrimPrefix(s.String(), "TASK_STATE_")
	return name[:1] + strings.ToLower(name[1:])
}

// CauseText is a status's cause for people: "exited 0", "killed by SIGKILL", "OOMKilled".
func CauseText(s *ohmv1.Status) string {
	switch s.GetCause() {
	case Exited:
		return fmt.Sprintf("exited %d", s.GetExitCode())
	case Signalled:
		return fmt.Sprintf("signal %d", s.GetSignal())
	}
	return s.GetCause()
}
