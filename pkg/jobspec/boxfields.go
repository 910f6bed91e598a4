package jobspec

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// boxFields are those of what a program finds itself in: a group's and a container's. box
// is where to put them.
func boxFields[T any](box func(*T) *ohmv1.Box) []field[T] {
	return []field[T]{
		{name: "image", form: "a registry's reference, `oci:DIR` or `tar:FILE`", preset: "the node's own file system", meaning: "The root file system, and what it says of command, environment, user and folder where these are not given.",
			read: func(r *reader, at place, v ast.Node, t *T) {
				if box(t).Image = r.name(at, v); box(t).Image == "" {
					r.bad[parent(at.path)+".command"] = true // which the image may have been meant to name
				}
			}},
		{name: "user", form: "name or number, or `user:group`", preset: "the image's; the agent's own without one", meaning: "Who runs it; names are those of the root file system.",
			read: func(r *reader, at place, v ast.Node, t *T) { box(t).User = r.name(at, v) }},
		{name: "dir", form: "absolute path", preset: "the image's, or the scratch folder", meaning: "The working folder.", aka: []string{"workingDir", "workdir", "cwd"},
			read: func(r *reader, at place, v ast.Node, t *T) { box(t).Dir = r.name(at, v) }},
		{name: "mounts", form: "list", preset: "none", meaning: "Paths of the node, and tmpfs.", aka: []string{"volumes", "volumeMounts"},
			read: func(r *reader, at place, v ast.Node, t *T) {
				for i, item := range r.list(at, v) {
					m := &ohmv1.Mount{}
					readMap(r, at.item(i), item, mountFields(), m)
					box(t).Mounts = append(box(t).Mounts, m)
				}
			}},
		{name: "readOnlyRoot", form: "true \\| false", preset: "false", meaning: "Nothing can be written but mounts and the scratch folder.", aka: []string{"readOnlyRootFilesystem", "readonly"},
			read: func(r *reader, at place, v ast.Node, t *T) { box(t).ReadOnlyRoot = r.truth(at, v) }},
		{name: "capabilities", form: "map", preset: "with an image Docker's usual fourteen, without one the agent's own", meaning: "Linux capabilities more and less.",
			read: func(r *reader, at place, v ast.Node, t *T) { readMap(r, at, v, capabilityFields(), box(t)) }},
		{name: "confined", form: "true \\| false", preset: "true with an image", meaning: "No process gains privileges by executing a file, and all are held to the usual seccomp profile. With an image this is always so.",
			read: func(r *reader, at place, v ast.Node, t *T) { box(t).Confined = r.truth(at, v) }},
	}
}

func mountFields() []field[ohmv1.Mount] {
	type mount = ohmv1.Mount
	return []field[mount]{
		{name: "target", form: "absolute path", preset: "required", meaning: "Where it appears; without an image it must be there.", aka: []string{"mountPath", "destination", "path"},
			read: func(r *reader, at place, v ast.Node, m *mount) { m.Target = r.name(at, v) }},
		{name: "source", form: "absolute path", meaning: "A path of the node, which must be there.", aka: []string{"hostPath", "src"},
			read: func(r *reader, at place, v ast.Node, m *mount) { m.Source = r.name(at, v) }},
		{name: "tmpfs", form: "bytes", meaning: "A tmpfs of this size, empty at the start. What is in it is charged to the task's memory.", aka: []string{"size", "sizeLimit"},
			read: func(r *reader, at place, v ast.Node, m *mount) {
				if m.TmpfsBytes = r.bytes(at, v); m.TmpfsBytes == 0 && !r.bad[at.path] {
					r.fault(at, "tmpfs is 0; say how large it may get, e.g. tmpfs: 64Mi")
				}
			}},
		{name: "readOnly", form: "true \\| false", preset: "false", meaning: "It cannot be written to.", aka: []string{"ro"},
			read: func(r *reader, at place, v ast.Node, m *mount) { m.ReadOnly = r.truth(at, v) }},
	}
}

func capabilityFields() []field[ohmv1.Box] {
	type box = ohmv1.Box
	return []field[box]{
		{name: "add", form: "list of `CAP_…`", preset: "none", meaning: "Those to have beside the usual ones.",
			read: func(r *reader, at place, v ast.Node, b *box) { b.AddCapabilities = r.texts(at, v) }},
		{name: "drop", form: "list of `CAP_…`, or `ALL`", preset: "none", meaning: "Those to go without.",
			read: func(r *reader, at place, v ast.Node, b *box) { b.DropCapabilities = r.texts(at, v) }},
	}
}

func containerFields() []field[ohmv1.Container] {
	type container = ohmv1.Container
	return append([]field[container]{
		{name: "name", form: "name", preset: "required", meaning: "The container's name, unique in its group.",
			read: func(r *reader, at place, v ast.Node, c *container) { c.Name, _ = r.text(at, v) }},
		{name: "role", form: strings.Join(roles(), " \\| "), preset: "`main`", meaning: "`main`, the last of the list: its end is the task's. `init`: runs to its end, with exit code 0, before what follows it starts. `sidecar`: starts before what follows it, and is ended with the task.", aka: []string{"type", "kind"},
			read: func(r *reader, at place, v ast.Node, c *container) { c.Role = r.name(at, v) }},
		{name: "command", form: "list of text", preset: "the image's; required without one", meaning: "The program and its arguments. No shell reads it, and no entrypoint of the image comes before it.", aka: []string{"cmd", "args", "exec", "run"},
			read: func(r *reader, at place, v ast.Node, c *container) { c.Command = r.texts(at, v) }},
		{name: "env", form: "map of text", preset: "none", meaning: "Environment variables beside those of the group.", aka: []string{"environment"},
			read: func(r *reader, at place, v ast.Node, c *container) { c.Env = r.textMap(at, v) }},
	}, boxFields(func(c *container) *ohmv1.Box {
		if c.Box == nil {
			c.Box = &ohmv1.Box{}
		}
		return c.Box
	})...)
}

// groupBoxFields are what a group says of its tasks' shape.
func groupBoxFields() []field[ohmv1.Group] {
	type group = ohmv1.Group
	return append(boxFields(func(g *group) *ohmv1.Box {
		if g.Box == nil {
			g.Box = &ohmv1.Box{}
		}
		return g.Box
	}), []field[group]{
		{name: "containers", form: "list", preset: "one, of `command`", meaning: "Several programs that live and die together as a task, in order. They share its limits, scratch folder, logs and network.",
			read: func(r *reader, at place, v ast.Node, g *group) {
				for i, item := range r.list(at, v) {
					c := &ohmv1.Container{}
					readMap(r, at.item(i), item, containerFields(), c)
					g.Containers = append(g.Containers, c)
				}
				if len(g.Containers) == 0 && !r.bad[at.path] {
					r.bad[parent(at.path)+".command"] = true // what else is missing follows from this
					r.fault(at, "containers is empty; leave it out for a task of one command")
				}
			}},
		{name: "cpuMax", form: "cores", preset: "no limit", meaning: "CPU that a task never exceeds, whatever is idle. `cpu` is only a share.", aka: []string{"cpuLimit"},
			read: func(r *reader, at place, v ast.Node, g *group) {
				if g.CpuMaxMilli = r.milli(at, v); g.CpuMaxMilli == 0 && !r.bad[at.path] {
					r.fault(at, "cpuMax is 0; leave it out for no limit")
				}
			}},
		{name: "pids", form: "number", preset: "4096", meaning: "Processes and threads of a task.", aka: []string{"pidsLimit", "processes"},
			read: func(r *reader, at place, v ast.Node, g *group) {
				if g.Pids = int64(r.whole(at, v)); g.Pids == 0 && !r.bad[at.path] {
					r.fault(at, "pids 0 is not at least 1; leave it out for the usual limit")
				}
			}},
		{name: "startDeadline", form: "duration", preset: "`2m`", meaning: "How long a start is tried again that fails for what may pass, such as a registry that is down.",
			read: func(r *reader, at place, v ast.Node, g *group) { g.StartDeadline = r.duration(at, v) }},
	}...)
}
