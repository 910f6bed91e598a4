package driver

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/ability"
	"github.com/ohmcell/ohm/pkg/names"
)

// Abilities are what Driver.Capabilities can name. The node's record holds them, so that
// whoever places tasks knows what a node can honour; the rule is in package ability.
const (
	CanNamespaces = ability.Namespaces
	CanMemory     = ability.Memory
	CanCPU        = ability.CPU
	CanCPUMax     = ability.CPUMax
	CanPids       = ability.Pids
	CanKill       = ability.Kill
	CanHostRoot   = ability.HostRoot
	CanImage      = ability.Image
	CanRegistry   = ability.Registry
	CanUser       = ability.User
	CanMount      = ability.Mount
	CanReadOnly   = ability.ReadOnly
	CanCaps       = ability.Caps
	CanConfine    = ability.Confine
	CanContainers = ability.Containers
	CanExec       = ability.Exec
	CanTerminal   = ability.Terminal
	CanStats      = ability.Stats
	CanDevices    = ability.Devices
	CanProbe      = ability.Probe
	CanOwnNetwork = ability.OwnNetwork
)

// Needs are the abilities that the task's fields ask for.
func Needs(t Task) ability.Set {
	asks := ability.Task{
		CPUMax: t.CPUMax > 0, Pids: t.Pids > 0, Several: len(t.Containers) > 0, Devices: len(t.DeviceNodes)+len(t.DeviceFiles)+len(t.Hooks) > 0,
		Probed: t.Probed, OwnNetwork: t.OwnNetwork,
	}
	for _, c := range t.All() {
		asks.Boxes = append(asks.Boxes, ability.Box{
			Image: c.Image, User: c.User != "", Mounts: len(c.Mounts) > 0, ReadOnly: c.ReadOnlyRoot,
			Caps: len(c.AddCaps)+len(c.DropCaps) > 0, Confined: c.Confined,
		})
	}
	return asks.Needs()
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
	if lacks := Needs(t).Without(ability.Of(can)); lacks != 0 {
		return fmt.Errorf("task %s asks for what %w: %s", t.ID, ErrCannot, lacks)
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
	for _, h := range t.Hooks {
		if !path.IsAbs(h.Path) || h.Timeout < 0 {
			return fmt.Errorf("task %s has a hook %q, whose path is not absolute, or with a time below zero", t.ID, h.Path)
		}
	}
	if len(t.Containers) > 0 && (len(t.Command) > 0 || len(t.Env) > 0) {
		return fmt.Errorf("task %s has containers and a command of its own", t.ID)
	}
	if len(t.Publish) > 0 && !t.OwnNetwork {
		return fmt.Errorf("task %s publishes ports of a network of its own, which it has not", t.ID)
	}
	mains, seen, all := 0, map[string]bool{}, t.All()
	for _, c := range all {
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
	if all[len(all)-1].Role != Main {
		return fmt.Errorf("task %s has containers after its main one, which would never start", t.ID)
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
type Kind = ability.Kind

// The kinds.
const (
	NoImage       = ability.NoImage
	RegistryImage = ability.RegistryImage
	LayoutImage   = ability.LayoutImage
	TarImage      = ability.TarImage
)

// ImageKind takes an image's name apart: its kind, and the reference, folder or file.
func ImageKind(image string) (Kind, string) { return ability.KindOf(image) }
