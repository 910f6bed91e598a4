// Package native runs tasks as processes of this machine, with what its kernel allows
// and with no daemon.
//
// Between the agent and a task's command stand two small processes, both of them this
// very program under a hidden verb (Main):
//
//	agent ─▶ shim ─▶ init ─▶ command
//
// The shim is the task's memory: it has a session of its own, outlives the agent, and
// writes down how the task ended. The init is pid 1 of the task's pid namespace, where
// there is one: it reaps orphans, passes signals on, and ends whatever the command left
// behind; if the shim goes away, so does everything below it. Both stay out of the task's
// cgroups, so the task is charged with nothing but its own. A pid 1 ignores a SIGTERM that
// it has no handler for, which is one more reason why the command is never pid 1.
//
// Everything that is known of a task is in its folder, tasks/<id>:
//
//	lock       held by whoever starts the task and then by its shim, for as long as it lives
//	spec.json  what to run, written before the folder appears
//	state.json boot id, pids with start times, cgroups
//	killed     there once the driver was told to kill the task
//	exit.json  how it ended; written once, whole
//	scratch/   its working directory
//	shim.log   what shim and init have to complain about
//
// The folder appears under its name in one step, already locked, so a task has one
// starter, whatever crashes. A free lock with no exit.json means that the task is over
// and nobody saw how: what is left of it is ended then, and that is written down.
//
// Tasks share the node's file system and network. Where they have namespaces (pid,
// mount, uts, ipc), mounts of the node reach them and theirs do not reach the node.
//
// What cannot be had: shims stay in the agent's own cgroup, so a service manager must end the
// agent alone (systemd: KillMode=process); and without cgroups a task that loses shim and init
// in the same moment may leave processes that nobody can tell from others.
//
// Limits are cgroup limits: memory is hard, the number of processes is bounded, cpu is a
// weight: under pressure tasks share in proportion to what they asked for, and an idle core
// may be used by whoever wants it. GPUs are told to a task in its environment only.
package native

import "go.uber.org/zap"

// Config of a driver.
type Config struct {
	Dir        string // holds all state; one driver name and cgroup per folder
	Executable string // the program that calls Main; default: this one, even if its file was replaced
	CgroupName string // of this agent's cgroups, unique on the machine; default: made from Dir
	Log        *zap.Logger
}

// The hidden verbs.
const (
	verbShim  = "native-shim"
	verbInit  = "native-init"
	verbProbe = "native-probe"
)

// Hidden says whether args (a program's arguments without its name) are a hidden verb,
// for Main. A program that makes a driver asks this before it does anything else.
func Hidden(args []string) bool {
	return len(args) > 0 && (args[0] == verbShim || args[0] == verbInit || args[0] == verbProbe)
}
