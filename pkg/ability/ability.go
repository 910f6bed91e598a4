// Package ability names what a node can do for its tasks beyond running a program, and
// says what of it the tasks of a group need. It is the one rule about that: by it nodes
// are chosen, commits are judged, and drivers refuse what they cannot honour.
package ability

import (
	"math/bits"
	"strings"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// The abilities, as they stand in a node's record.
const (
	Namespaces = "namespaces"    // a task sees its own processes only
	Memory     = "cgroup-memory" // Resources.MemoryBytes is a hard limit, and a kill for it is told apart
	CPU        = "cgroup-cpu"    // Resources.CpuMilli is a weight
	CPUMax     = "cgroup-cpu-max"
	Pids       = "cgroup-pids"
	Kill       = "cgroup-kill" // nothing of a task escapes its end
	HostRoot   = "host-root"   // tasks without an image
	Image      = "image"       // oci: and tar:
	Registry   = "image-registry"
	User       = "user"
	Mount      = "mounts"
	ReadOnly   = "read-only-root"
	Caps       = "capabilities"
	Confine    = "confined" // no new privileges, and a seccomp profile
	Containers = "containers"
	Exec       = "exec"
	Terminal   = "exec-terminal"
	Stats      = "stats"
	Devices    = "devices"     // device files in a box with an image
	Probe      = "health"      // the agent can find out how a task is
	OwnNetwork = "own-network" // a task that shares no network with the node
)

// needed are the abilities that a task can need, sorted; the others are for people.
var needed = [...]string{Caps, CPUMax, Pids, Confine, Containers, Devices, Probe, HostRoot, Image, Registry, Mount, OwnNetwork, ReadOnly, User}

// Set is a set of the abilities that a task can need.
type Set uint32

// of is the set of one ability; empty for one that no task can need.
func of(name string) Set {
	for i, n := range needed {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// Of is the set of the abilities in a node's record. A node whose record speaks of no
// images is one of a release that knew none: its tasks run on its own file system.
func Of(names []string) (s Set) {
	for _, name := range names {
		s |= of(name)
	}
	if s&(of(Image)|of(Registry)) == 0 {
		s |= of(HostRoot)
	}
	return s
}

// Without is what of s is not in o.
func (s Set) Without(o Set) Set { return s &^ o }

// Names are those of the set, sorted.
func (s Set) Names() (names []string) {
	for ; s != 0; s &= s - 1 {
		names = append(names, needed[bits.TrailingZeros32(uint32(s))])
	}
	return names
}

// String is the names with commas between.
func (s Set) String() string { return strings.Join(s.Names(), ", ") }

// Box is what of a program's surroundings can ask for an ability.
type Box struct {
	Image                                  string
	User, Mounts, ReadOnly, Caps, Confined bool
}

// Task is what of a task can ask for an ability.
type Task struct {
	CPUMax, Pids, Several bool
	Devices               bool // device files, which a node's GPUs may have
	Probed, OwnNetwork    bool
	Boxes                 []Box // one for each program
}

// Needs are the abilities that a task asks for. Limits that a machine without cgroups has
// always gone without (resources) are not among them.
func (t Task) Needs() (s Set) {
	need := func(yes bool, name string) {
		if yes {
			s |= of(name)
		}
	}
	need(t.CPUMax, CPUMax)
	need(t.Pids, Pids)
	need(t.Several, Containers)
	need(t.Probed, Probe)
	need(t.OwnNetwork, OwnNetwork)
	for _, b := range t.Boxes {
		kind, _ := KindOf(b.Image)
		need(kind == NoImage, HostRoot)
		need(kind == RegistryImage, Registry)
		need(kind == LayoutImage || kind == TarImage, Image)
		need(kind != NoImage && t.Devices, Devices)
		need(b.User, User)
		need(b.Mounts, Mount)
		need(b.ReadOnly, ReadOnly)
		need(b.Caps, Caps)
		need(b.Confined, Confine)
	}
	return s
}

// OfGroup are the abilities that the tasks of a group need.
func OfGroup(g *ohmv1.Group) Set {
	t := Task{
		CPUMax: g.GetCpuMaxMilli() > 0, Pids: g.GetPids() > 0, Several: len(g.GetContainers()) > 0,
		Probed: g.GetHealth() != nil, OwnNetwork: g.GetNetwork() == "own",
	}
	if g.GetBox() == nil && !t.CPUMax && !t.Pids && !t.Several && !t.Probed && !t.OwnNetwork {
		return of(HostRoot) // as most are
	}
	if !t.Several {
		t.Boxes = []Box{boxOf(g.GetBox())}
	}
	for _, c := range g.GetContainers() {
		t.Boxes = append(t.Boxes, boxOf(c.GetBox()))
	}
	return t.Needs()
}

func boxOf(b *ohmv1.Box) Box {
	return Box{
		Image: b.GetImage(), User: b.GetUser() != "", Mounts: len(b.GetMounts()) > 0, ReadOnly: b.GetReadOnlyRoot(),
		Caps: len(b.GetAddCapabilities())+len(b.GetDropCapabilities()) > 0, Confined: b.GetConfined(),
	}
}
