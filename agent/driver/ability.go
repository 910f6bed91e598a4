package driver

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/names"
)

// Abilities are what Driver.Capabilities can name. The node's record holds them, so that
// whoever places tasks knows what a node can honour; Needs says what a task asks for.
const (
	CanNamespaces = "namespaces"    // a task sees its own processes only
	CanMemory     = "cgroup-memory" // Resources.MemoryBytes is a hard limit, and a kill for it is told apart
	CanCPU        = "cgroup-cpu"    // Resources.CpuMilli is a weight
	CanCPUMax     = "cgroup-cpu-max"
	CanPids       = "cgroup-pids"
	CanKill       = "cgroup-kill" // nothing of a task escapes its end
	CanHostRoot   = "host-root"   // tasks without an image
	CanImage      = "image"       // oci: and tar:
	CanRegistry   = "image-registry"
	CanUser       = "user"
	CanMount      = "mounts"
	CanReadOnly   = "read-only-root"
	CanCaps       = "capabilities"
	CanConfine    = "confined" // no new privileges, and a seccomp profile
	CanContainers = "containers"
	CanExec       = "exec"
	CanTerminal   = "exec-terminal"
	CanStats      = "stats"
	CanDevices    = "devices"     // device files in a box with an image
	CanProbe      = "health"      // the agent can find out how a task is
	CanOwnNetwork = "own-network" // a task that shares no network with the node
)

// Needs are the abilities that the task's fields ask for, sorted, each once. Limits that
// a machine without cgroups has always gone without (Resources) are not among them.
func Needs(t Task) []string {
	var needs []string
	need := func(yes bool, ability string) {
		if yes && !slices.Contains(needs, ability) {
			needs = append(needs, ability)
		}
	}
	need(t.CPUMax > 0, CanCPUMax)
	need(t.Pids > 0, CanPids)
	need(len(t.Containers) > 0, CanContainers)
	need(t.Probed, CanProbe)
	need(t.OwnNetwork, CanOwnNetwork)
	for _, c := range t.All() {
		kind, _ := ImageKind(c.Image)
		need(kind == NoImage, CanHostRoot)
		need(kind == RegistryImage, CanRegistry)
		need(kind == LayoutImage || kind == TarImage, CanImage)
		need(kind != NoImage && len(t.DeviceNodes)+len(t.DeviceFiles) > 0, CanDevices)
		need(c.User != "", CanUser)
		need(len(c.Mounts) > 0, CanMount)
		need(c.ReadOnlyRoot, CanReadOnly)
		need(len(c.AddCaps)+len(c.DropCaps) > 0, CanCaps)
		need(c.Confined, CanConfine)
	}
	slices.Sort(needs)
	return needs
}

// ErrCannot says that a driver cannot honour what a task asks for; the node's record would
// have told.
var ErrCannot = errors.New("cannot be honoured here")

// Check judges a task before anything is done for it: what makes no sense for any driver,
// and, by ErrCannot, what a driver of these abilities cannot honour.
func Check(t Task, can []string) error {
	if err := t.valid(); err != nil {
		return err
	}
	var lacks []string
	for _, need := range Needs(t) {
		if !slices.Contains(can, need) {
			lacks = append(lacks, need)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("task %s asks for what %w: %s", t.ID, ErrCannot, strings.Join(lacks, ", "))
	}
	return nil
}

func (t Task) valid() error {
	if t.ID == "" || len(t.ID) > 240 || strings.HasPrefix(t.ID, ".") || strings.ContainsAny(t.ID, "/\x00") {
		return fmt.Errorf("task id %q cannot be a file name", t.ID)
	}
	if t.CPUMax < 0 || t.Pids < 0 {
		return fmt.Errorf("task %s has a limit below zero", t.ID)
	}
	for _, file := range slices.Concat(t.DeviceNodes, t.DeviceFiles) {
		if !strings.HasPrefix(file, "/") || path.Clean(file) != file {
			return fmt.Errorf("task %s has a device file %q, which is no clean absolute path", t.ID, file)
		}
	}
	if len(t.Containers) > 0 && (len(t.Command) > 0 || len(t.Env) > 0) {
		return fmt.Errorf("task %s has containers and a command of its own", t.ID)
	}
	if len(t.Publish) > 0 && !t.OwnNetwork {
		return fmt.Errorf("task %s publishes ports of a network of its own, which it has not", t.ID)
	}
	mains, seen := 0, map[string]bool{}
	for _, c := range t.All() {
		if c.Role == Main {
			mains++
		}
		if names.Check("container", c.Name) != nil || seen[c.Name] {
			return fmt.Errorf("task %s has a container named %q, which is no label or there twice", t.ID, c.Name)
		}
		seen[c.Name] = true
		if err := c.valid(); err != nil {
			return fmt.Errorf("task %s, container %s: %w", t.ID, c.Name, err)
		}
	}
	if mains != 1 {
		return fmt.Errorf("task %s has %d main containers instead of one", t.ID, mains)
	}
	return nil
}

func (c Container) valid() error {
	if c.Role < Main || c.Role > Sidecar {
		return fmt.Errorf("there is no role %d", c.Role)
	}
	if len(c.Command) > 0 && c.Command[0] == "" || len(c.Command) == 0 && c.Image == "" {
		return errors.New("it has no command")
	}
	if _, of := ImageKind(c.Image); c.Image != "" && of == "" {
		return fmt.Errorf("image %q names nothing", c.Image)
	}
	if c.Dir != "" && !path.IsAbs(c.Dir) {
		return fmt.Errorf("working folder %q is not absolute", c.Dir)
	}
	for _, m := range c.Mounts {
		if path.Clean(m.Target) != m.Target || !path.IsAbs(m.Target) || m.Target == "/" {
			return fmt.Errorf("mount target %q is not a clean absolute path below the root", m.Target)
		}
		if m.Source != "" && !path.IsAbs(m.Source) {
			return fmt.Errorf("mount source %q is not absolute", m.Source)
		}
		if m.Size < 0 || m.Size > 0 && m.Source != "" {
			return fmt.Errorf("mount %s: a size, of zero and more, is for a tmpfs only", m.Target)
		}
	}
	return nil
}

// Kind of an image, by how its name is written.
type Kind int

// The kinds.
const (
	NoImage Kind = iota
	RegistryImage
	LayoutImage // oci:DIR
	TarImage    // tar:FILE
)

// ImageKind takes an image's name apart: its kind, and the reference, folder or file.
func ImageKind(image string) (Kind, string) {
	if image == "" {
		return NoImage, ""
	}
	if dir, ok := strings.CutPrefix(image, "oci:"); ok {
		return LayoutImage, dir
	}
	if file, ok := strings.CutPrefix(image, "tar:"); ok {
		return TarImage, file
	}
	return RegistryImage, image
}
