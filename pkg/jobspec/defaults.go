package jobspec

import (
	"slices"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Kinds are the kinds of job.
func Kinds() []string { return []string{"service", "batch", "ml", "system"} }

// RunsToEnd says whether a job of this spec ends by itself, when its tasks have.
func RunsToEnd(spec *ohmv1.JobSpec) bool { return spec.GetKind() == "batch" || spec.GetKind() == "ml" }

// Signals are those that a job may be stopped with.
func Signals() []string {
	return []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGWINCH"}
}

// MaxPrecedence is the largest precedence; the smallest is 0.
const MaxPrecedence = 399

type namedPrecedence struct {
	name  string
	value int32
}

func namedPrecedences() []namedPrecedence {
	return []namedPrecedence{{"free", 0}, {"batch", 100}, {"production", 200}, {"system", 300}}
}

// DefaultPrecedence is the precedence of a job that names none.
func DefaultPrecedence(kind string) int32 {
	switch kind {
	case "service":
		return 200
	case "system":
		return 300
	}
	return 100
}

// Defaults fills in what a job leaves out: the namespace, the scheduler named like the
// kind, the precedence by kind, how to stop, what to do when a node is silent, how a
// service is updated, the role of a container, and for ml a gang of all tasks with a port to
// meet at.
func Defaults(spec *ohmv1.JobSpec) {
	if spec.Namespace == "" {
		spec.Namespace = "default"
	}
	if spec.Scheduler == "" {
		spec.Scheduler = spec.Kind
	}
	if spec.Precedence == nil {
		spec.Precedence = proto.Int32(DefaultPrecedence(spec.Kind))
	}
	scheduleDefaults(spec.Schedule)
	for _, g := range spec.Groups {
		slices.SortFunc(g.GetPorts(), byName) // in the file it is a map
		defaultHealth(g.GetHealth())
	}
	if spec.Stop == nil {
		spec.Stop = &ohmv1.StopPolicy{}
	}
	if spec.Stop.Signal == "" {
		spec.Stop.Signal = "SIGTERM"
	}
	if spec.Stop.Grace == nil {
		spec.Stop.Grace = durationpb.New(30 * time.Second)
	}
	if spec.Stop.Replace == "" {
		spec.Stop.Replace = "afterExit"
		if spec.Kind == "service" {
			spec.Stop.Replace = "atOnce"
		}
	}
	if spec.WhenSilent == nil {
		spec.WhenSilent = &ohmv1.WhenSilent{}
	}
	if spec.WhenSilent.Then == "" {
		spec.WhenSilent.Then = "replace"
		if spec.Kind == "system" { // nowhere else could it be replaced
			spec.WhenSilent.Then = "keep"
		}
	}
	defaultUpdate(spec)
	for _, g := range spec.Groups {
		for _, c := range g.GetContainers() {
			if c.Role == "" {
				c.Role = RoleMain
			}
		}
	}
	if spec.Kind != "ml" {
		return
	}
	defaultGang(spec)
	for _, g := range spec.Groups {
		defaultMaster(g)
	}
}

// MasterPort is the name of the port at which the members of a gang meet: that of its rank 0.
const MasterPort = "master"

// defaultMaster gives a group of a gang a dynamic port to meet at, if it names none. Any of
// its tasks may come to be rank 0, so each has one.
func defaultMaster(g *ohmv1.Group) {
	if slices.ContainsFunc(g.Ports, func(p *ohmv1.Port) bool { return p.GetName() == MasterPort }) {
		return
	}
	g.Ports = append(g.Ports, &ohmv1.Port{Name: MasterPort})
	slices.SortFunc(g.Ports, byName)
}

// tasks is the number of tasks of all groups.
func tasks(spec *ohmv1.JobSpec) int64 {
	n := int64(0)
	for _, g := range spec.Groups {
		n += int64(g.GetCount())
	}
	return n
}
