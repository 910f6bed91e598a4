package jobspec

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/ohmcell/ohm/pkg/ability"
	"github.com/ohmcell/ohm/pkg/names"
	"github.com/ohmcell/ohm/pkg/near"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Limits of one group's shape.
const (
	maxContainers = 32
	maxMounts     = 64      // of one box
	maxPids       = 4 << 20 // what the kernel can count
	minDeadline   = time.Second
)

// RoleMain is the role of a container that names none.
const RoleMain = "main"

func roles() []string { return []string{RoleMain, "init", "sidecar"} }

// checkTasksShape judges what a group says of its tasks' containers and limits.
func checkTasksShape(ps *problems, at string, g *ohmv1.Group) {
	switch most := g.GetCpuMaxMilli(); {
	case most < 0 || most > resource.MaxCPU:
		ps.add(at+".cpuMax", "cpuMax %s is not between 1m and %s", resource.FormatCPU(most), resource.FormatCPU(resource.MaxCPU))
	case most > 0 && most < g.GetResources().GetCpuMilli():
		ps.add(at+".cpuMax", "cpuMax %s is less than the %s of cpu that each task is given", resource.FormatCPU(most), resource.FormatCPU(g.GetResources().GetCpuMilli()))
	}
	if g.GetPids() < 0 || g.GetPids() > maxPids {
		ps.add(at+".pids", "pids %d is not between 1 and %d", g.GetPids(), maxPids)
	}
	if g.GetStartDeadline() != nil {
		if wrong := checkDuration(g.StartDeadline, minDeadline); wrong != "" {
			ps.add(at+".startDeadline", "startDeadline %s", wrong)
		}
	}
	if len(g.Containers) == 0 {
		checkBox(ps, at, g.Box)
		return
	}
	for _, only := range onlyAlone(g) {
		ps.add(at+"."+only, "%s goes to each of the containers where a group has several", only)
	}
	if len(g.Containers) > maxContainers {
		ps.add(at+".containers", "the group has %d containers, more than the limit of %d", len(g.Containers), maxContainers)
		return
	}
	checkContainers(ps, at, g.Containers)
}

// onlyAlone are the fields given that a group has only in place of containers.
func onlyAlone(g *ohmv1.Group) (given []string) {
	b := g.GetBox()
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"command", len(g.Command) > 0}, {"image", b.GetImage() != ""}, {"user", b.GetUser() != ""}, {"dir", b.GetDir() != ""},
		{"mounts", len(b.GetMounts()) > 0}, {"readOnlyRoot", b.GetReadOnlyRoot()},
		{"capabilities", len(b.GetAddCapabilities())+len(b.GetDropCapabilities()) > 0}, {"confined", b.GetConfined()},
	} {
		if f.is {
			given = append(given, f.name)
		}
	}
	return given
}

func checkContainers(ps *problems, at string, containers []*ohmv1.Container) {
	mains, seen := 0, map[string]bool{}
	for i, c := range containers {
		here := fmt.Sprintf("%s.containers[%d]", at, i)
		ps.check(here+".name", names.Check("container name", c.GetName()))
		if c.GetName() != "" && seen[c.GetName()] {
			ps.add(here+".name", "two containers are named %s", quote(c.GetName()))
		}
		seen[c.GetName()] = true
		switch role := c.GetRole(); {
		case role == "" || role == RoleMain:
			if mains++; mains == 2 {
				ps.add(here+".role", "a second main container; a group has one, and the others are init or sidecar")
			} else if i < len(containers)-1 {
				ps.add(here+".role", "the main container is the last one: what stands after it would never start")
				return // so its role may be another one
			}
		case !slices.Contains(roles(), role):
			ps.add(here+".role", "role %s %s", quote(role), oneOf(role, roles()))
			mains = 1 // it could be
		}
		checkCommand(ps, here, c.GetCommand(), c.GetEnv(), c.GetBox().GetImage() != "")
		checkBox(ps, here, c.GetBox())
	}
	if mains == 0 {
		ps.add(at+".containers", "none of the containers is the main one, whose end is the task's; the last one must be")
	}
}

func checkBox(ps *problems, at string, b *ohmv1.Box) {
	if b == nil {
		return
	}
	checkImage(ps, at+".image", b.Image)
	if b.User != "" && (len(b.User) > maxText || !printable(b.User) || strings.ContainsAny(b.User, " /") || strings.Count(b.User, ":") > 1 || strings.HasPrefix(b.User, ":") || strings.HasSuffix(b.User, ":")) {
		ps.add(at+".user", "user %s is not a user's name or number, with or without a group, e.g. 1000:1000", quote(b.User))
	}
	checkPath(ps, at+".dir", "dir", b.Dir)
	if len(b.Mounts) > maxMounts {
		ps.add(at+".mounts", "there are %d mounts, more than the limit of %d", len(b.Mounts), maxMounts)
		return
	}
	targets := map[string]bool{}
	for i, m := range b.Mounts {
		checkMount(ps, fmt.Sprintf("%s.mounts[%d]", at, i), m, targets)
	}
	checkCapabilities(ps, at+".capabilities.add", b.AddCapabilities, ability.LinuxCapabilities())
	checkCapabilities(ps, at+".capabilities.drop", b.DropCapabilities, append(ability.LinuxCapabilities(), "ALL"))
}

func checkImage(ps *problems, at, image string) {
	kind, of := ability.KindOf(image)
	switch {
	case image == "":
	case len(image) > maxPath || !printable(image):
		ps.add(at, "image must be at most %d bytes of printable text", maxPath)
	case kind != ability.RegistryImage && !path.IsAbs(of):
		ps.add(at, "image %s names no absolute path of the node, such as %s/srv/image", quote(image), image[:strings.Index(image, ":")+1])
	case kind == ability.RegistryImage:
		if _, err := reference.ParseDockerRef(image); err != nil {
			ps.add(at, "image %s is not a reference such as example.org/train:1: %v", quote(image), err)
		}
	}
}

// maxPath is the kernel's limit of a path, in bytes.
const maxPath = 4095

// checkPath judges a path that may be absent; it reports whether it is a good one.
func checkPath(ps *problems, at, name, p string) bool {
	switch {
	case p == "":
		return false
	case len(p) > maxPath || !printable(p):
		ps.add(at, "%s must be at most %d bytes of printable text", name, maxPath)
	case !path.IsAbs(p):
		ps.add(at, "%s %s is not absolute; begin it with /", name, quote(p))
	case path.Clean(p) != p:
		ps.add(at, "%s %s is not in its shortest form; did you mean %s?", name, quote(p), path.Clean(p))
	default:
		return true
	}
	return false
}

func checkMount(ps *problems, at string, m *ohmv1.Mount, targets map[string]bool) {
	if m.GetTarget() == "" {
		ps.add(at+".target", "target is missing; it says where the mount appears, e.g. target: /data")
	} else if checkPath(ps, at+".target", "target", m.Target) {
		switch {
		case m.Target == "/":
			ps.add(at+".target", "target / would hide the root; name a folder in it")
		case targets[m.Target]:
			ps.add(at+".target", "two mounts have the target %s", quote(m.Target))
		}
		targets[m.Target] = true
	}
	checkPath(ps, at+".source", "source", m.GetSource())
	switch size := m.GetTmpfsBytes(); {
	case (m.GetSource() == "") == (size == 0):
		ps.add(at, "a mount has exactly one of source, a path of the node, and tmpfs, a size")
	case size < 0 || size > resource.MaxBytes:
		ps.add(at+".tmpfs", "tmpfs %s is not between 1 byte and %s", resource.FormatBytes(size), resource.FormatBytes(resource.MaxBytes))
	}
}

func checkCapabilities(ps *problems, at string, given, known []string) {
	for i, c := range given {
		if slices.Contains(known, c) {
			continue
		}
		message := "is not a capability of Linux"
		if full := "CAP_" + strings.TrimPrefix(strings.ToUpper(c), "CAP_"); slices.Contains(known, full) {
			message += "; did you mean " + full + "?"
		} else if meant := near.Of(c, known); meant != "" {
			message += "; did you mean " + meant + "?"
		} else {
			message += ", such as CAP_NET_RAW"
		}
		ps.add(fmt.Sprintf("%s[%d]", at, i), "%s %s", quote(c), message)
	}
}
