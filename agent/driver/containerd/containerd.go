// Package containerd runs tasks as containers of a containerd daemon (1.6 and newer).
//
// Each agent has a containerd namespace and a parent cgroup of its own, made from its
// folder, so several agents share one daemon. A task's container runs
//
//	containerd-shim ─▶ ohm-init (pid 1) ─▶ command
//
// and nothing of it hangs on the agent or on the daemon: either may be killed at any time.
// ohm-init, a small program beside this one, gives the command the signals that it would
// have outside of a container, ends what the command leaves behind, and writes down how the
// command ended, which containerd's exit status alone does not tell. It costs the task some
// two MiB and half a dozen threads.
//
// Everything that the driver knows of a task is in its folder, tasks/<id>:
//
//	lock       held by whoever changes anything of the task
//	spec.json  what to run, written before the folder appears
//	state.json boot id, when it started, its command's pid with start time
//	killed     there once the driver was told to kill the task
//	exit.json  how it ended; written once, whole
//	network.json the process that keeps its network, if it has one of its own
//	report-*   what each container's ohm-init says
//	scratch/   the task's scratch folder, /scratch in its containers
//
// The container's id is a hash of the task's, its labels hold the whole, the boot id and the
// time of its start. Limits are those of one cgroup above all containers of the task, which
// the driver makes and which outlives them, so that what was used can still be read.
//
// A container has namespaces of its own for processes, mounts, hostname, ipc and cgroups, and
// the node's network, unless its task has one of its own; no new privileges; containerd's default seccomp profile; the usual
// fourteen capabilities, as far as the agent has them itself; the agent's own limit of open
// files. The oom score is left as it is.
//
// Logs are written by one more ohm-init for each container, which containerd's shim starts
// outside of it and which reads what the container says from two pipes (segment). It ends
// with its container; whoever ends it before ends the container, at the next word that that
// says. The stream is complete when the task is seen to have ended.
//
// A network of a task's own is kept by one more ohm-init, which the driver starts in it, outside
// of every container, and which passes connections to the task's ports on into it (publish).
// It ends with the task. It stays in the agent's own cgroup, so a service manager should end the
// agent alone (systemd: KillMode=process); whoever ends it all the same has it replaced by a
// running agent, in the network that the containers are in, and connections break.
//
// Of a task with several containers somebody must start the next one when an init container
// has ended: that is Observe, List or Watch of a running agent. Without an agent such a task
// waits.
//
// Images are taken as they are, once they are here: a reference is not looked up again, so
// name what may change by its digest. When they take too much, those go that were used longest
// ago, and none that a container is of.
package containerd

import (
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver/registry"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// Config of a driver.
type Config struct {
	Address    string         // of containerd's socket
	Dir        string         // holds what the driver knows; one driver name, namespace and cgroup per folder
	Namespace  string         // of containerd; default: made from Dir
	CgroupName string         // of this agent's cgroups, unique on the machine; default: made from Dir
	Logs       segment.Limits // of each of a task's two streams
	Init       string         // the program ohm-init; default: beside this program, or in PATH
	ImageBytes int64          // what images may take that no task uses; default: 20 GiB
	Log        *zap.Logger

	RegistryAuth registry.Auth // for registries that ask for credentials
}

// startFor is how long a start that names no time goes on trying.
const startFor = 2 * time.Minute
