// Package native runs tasks as processes of this machine, with what its kernel allows
// and with no daemon.
//
// Between the agent and a task's command stand two small processes, both of them this
// very program under a hidden verb (Main):
//
//	agent ─▶ shim ─▶ init ─▶ command
//
// The shim is the task's memory: it has a session of its own, outlives the agent, writes
// down how the task ended, and what it says, which comes to it by two pipes (segment). The
// init is pid 1 of the task's pid namespace, where there is one: it reaps orphans, passes
// signals on, and ends whatever the command left behind; if the shim goes away, so does
// everything below it. A task of several containers has one shim, which starts them in order,
// and an init for each of them, in namespaces of its own: they share cgroups, network, scratch
// folder and the pipes of the logs. Shim and inits stay out of the task's cgroups, so the task
// is charged with nothing but its own. A pid 1 ignores a SIGTERM that it has no handler for,
// which is one more reason why the command is never pid 1.
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
//	box/       of a task with an image: what it has written, and where its root is mounted;
//	           box-<name> of a container before the main one
//
// The folder appears under its name in one step, already locked, so a task has one
// starter, whatever crashes. A free lock with no exit.json means that the task is over
// and nobody saw how: what is left of it is ended then, and that is written down.
//
// A command that asks for a user, mounts, fewer capabilities or the like is started by way
// of one process more, which does that to itself and then becomes the command (enter_linux.go).
// A program that is run in a task (Exec) stands below a process that joins the task's
// namespaces; it hangs on the agent, as its output does.
//
// An image (image) is unpacked once, layer by layer, and put under a task by overlayfs, in a
// mount namespace of the task's own, in which it is the root; the node sees no mount of it.
// Such a task has a /dev and /proc of its own, Docker's usual capabilities, no new privileges
// and Docker's seccomp profile. Images come from OCI layouts, tars and registries; what a
// registry's reference named once is not asked for again while its layers are here. A start
// that waits for an image has its folder already, and is given up by Kill.
//
// Tasks share the node's network, but for those with one of their own, to whose ports the
// shim passes connections on (publish), and without an image its file system: the target of a mount must be there, and
// HOME, the scratch folder, may be out of reach by its name for a user who may not look into
// the agent's folder; the working folder is in reach. Where they have namespaces (pid,
// mount, uts, ipc), mounts of the node reach them and theirs do not reach the node.
//
// What cannot be had: shims stay in the agent's own cgroup, so a service manager must end the
// agent alone (systemd: KillMode=process); and without cgroups a task that loses shim and init
// in the same moment may leave processes that nobody can tell from others.
//
// Limits are cgroup limits: memory is hard, the number of processes is bounded, cpu is a
// weight: under pressure tasks share in proportion to what they asked for, and an idle core
// may be used by whoever wants it, unless the task has a CPUMax. GPUs are told to a task in its environment only.
package native

import (
	"slices"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver/registry"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// Config of a driver.
type Config struct {
	Dir        string         // holds all state; one driver name and cgroup per folder
	Executable string         // the program that calls Main; default: this one, even if its file was replaced
	CgroupName string         // of this agent's cgroups, unique on the machine; default: made from Dir
	ImageBytes int64          // what images may take below Dir when no task uses them; default: 20 GiB
	Logs       segment.Limits // of each of a task's two streams
	Log        *zap.Logger

	RegistryAuth registry.Auth // for registries that ask for credentials
}

// The hidden verbs.
const (
	verbShim  = "native-shim"
	verbInit  = "native-init"
	verbProbe = "native-probe"
	verbEnter = "native-enter"
	verbExec  = "native-exec"
)

// Hidden says whether args (a program's arguments without its name) are a hidden verb,
// for Main. A program that makes a driver asks this before it does anything else.
func Hidden(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{verbShim, verbInit, verbProbe, verbEnter, verbExec}, args[0])
}
