package driver

import (
	"slices"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Task is what a driver is told to run: one attempt of one slot. What is left out is not
// asked for; what a driver cannot honour it refuses (Check), and never ignores.
type Task struct {
	ID        string // unique for ever; safe as a file name; at most 240 bytes
	Command   []string
	Env       map[string]string // complete: the task sees these and PATH, HOME, nothing of the agent's own
	Resources *ohmv1.Resources  // limits; 0 in a dimension: none; cpu is a weight
	GPUs      []*ohmv1.DeviceShare
	// DeviceNodes are device files of the node that the task may use, DeviceFiles other files
	// that its GPUs need, read-only; each is at the same path in every box of it. A box
	// without an image has the node's own.
	DeviceNodes, DeviceFiles []string
	// Hooks complete the root of each box with an image for these devices, in order, before its
	// command starts.
	Hooks      []Hook
	MaxRuntime time.Duration // for drivers that simulate; the agent enforces it for real ones

	Box                    // what Command runs in
	Containers []Container // of a task that has several, in place of Command, Env and Box; absent: one main container of these

	// OwnNetwork: of the network the task sees a loopback interface of its own and nothing
	// else. Publish are the ports of the node at which it is reached: a connection to one is
	// passed on to the same port on 127.0.0.1 inside.
	OwnNetwork bool
	Publish    []int32
	Probed     bool // the agent will look after its health

	CPUMax  int64     // thousandths of a core that it may never exceed, whatever is idle; 0: no such limit
	Pids    int64     // processes and threads; 0: DefaultPids where the machine can count them
	StartBy time.Time // until then a start tries again what may pass, such as a registry that is down; zero: for two minutes
}

// Box is what one program finds itself in. The zero Box is the node's own file system, the
// agent's own user and a scratch folder of the task's own.
type Box struct {
	// Image gives the root file system, in which the program can write without any other
	// task's seeing it: a registry reference (example.org/train:1), oci:DIR for an OCI layout
	// or tar:FILE for one in a tar. Empty: the node's own file system. User, folder, command
	// and environment that the image names hold where the task names none.
	Image string
	// User is a name or number, with ":" and a group if it is not to be the user's own; names
	// are looked up in the root file system. Empty: the image's; without an image the agent's.
	User string
	// Dir is the working folder. Empty: the image's; if that names none, and without an
	// image, the task's scratch folder, which is empty at the start, is HOME unless Env says
	// otherwise, and goes with the task.
	Dir          string
	Mounts       []Mount
	ReadOnlyRoot bool // nothing but mounts and scratch folder can be written
	// Capabilities of Linux beyond the driver's usual ones, or less than these; names as in
	// CAP_NET_RAW; ALL in DropCaps: none but AddCaps.
	AddCaps, DropCaps []string
	// Confined: no process of it gains privileges by executing a file, and it is held to the
	// driver's usual seccomp profile. With an Image this is always so.
	Confined bool
}

// Hook is a program of the node that is run as an OCI runtime runs its createContainer hooks
// (runtime-spec, config.md): in the container's namespaces, with all that is mounted for it,
// before its root is entered; told by its standard input, in JSON, in which folder (bundle) a
// config.json says where the root is. If it fails, so does the start.
type Hook struct {
	Path    string        // absolute
	Args    []string      // the first is what it is called by; none: its path
	Env     []string      // name=value, all that it has
	Timeout time.Duration // 0: HookTimeout
}

// HookTimeout is how long a hook may run that names no time.
const HookTimeout = time.Minute

// Same says whether the other does the same.
func (h Hook) Same(other Hook) bool {
	return h.Path == other.Path && h.Timeout == other.Timeout && slices.Equal(h.Args, other.Args) && slices.Equal(h.Env, other.Env)
}

// Arguments are those that it is called with.
func (h Hook) Arguments() []string {
	if len(h.Args) == 0 {
		return []string{h.Path}
	}
	return h.Args
}

// DefaultPids bounds the processes and threads of a task that names no bound.
const DefaultPids = 4096

// Mount is one place in a box where something else appears.
type Mount struct {
	Target   string // absolute
	Source   string // a path of the node, which must exist; empty: a tmpfs
	Size     int64  // of a tmpfs, bytes; 0: half of the node's memory, charged to the task like all it uses
	ReadOnly bool
}

// Role of a container within its task.
type Role int

// The roles.
const (
	Main    Role = iota // exactly one, the last of the list: its end is the task's
	Init                // runs to its end, with exit code 0, before anything after it in the list starts
	Sidecar             // starts before what follows it in the list; is ended with the task; its own end ends nothing
)

// Container is one of several programs that live and die together as a task. They share
// the task's limits, scratch folder and logs.
type Container struct {
	Name    string // unique in the task, a DNS label
	Role    Role
	Command []string
	Env     map[string]string
	Box
}

// MainName is the name of a plain task's one container.
const MainName = "main"

// All are the containers of the task, in order.
func (t Task) All() []Container {
	if len(t.Containers) > 0 {
		return t.Containers
	}
	return []Container{{Name: MainName, Command: t.Command, Env: t.Env, Box: t.Box}}
}
