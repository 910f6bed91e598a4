package reconcile_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

func jobOf(kind string, groups ...*ohmv1.Group) *ohmv1.JobSpec {
	return &ohmv1.JobSpec{Namespace: "default", Name: "j", Kind: kind, Scheduler: kind, Precedence: proto.Int32(100), Groups: groups}
}

// Every field of a group reaches its processes but those of this list, and a field that is
// new has to be thought about.
func TestReaches(t *testing.T) {
	set := func(change func(g *ohmv1.Group)) *ohmv1.Group {
		g := &ohmv1.Group{Name: "main", Count: 1, Command: []string{"a"}}
		change(g)
		return g
	}
	changes := map[string]func(g *ohmv1.Group){
		"command":       func(g *ohmv1.Group) { g.Command = []string{"b"} },
		"env":           func(g *ohmv1.Group) { g.Env = map[string]string{"A": "b"} },
		"resources":     func(g *ohmv1.Group) { g.Resources = &ohmv1.Resources{CpuMilli: 1} },
		"gpus":          func(g *ohmv1.Group) { g.Gpus = &ohmv1.GPURequest{Count: 1} },
		"box":           func(g *ohmv1.Group) { g.Box = &ohmv1.Box{Image: "tar:/a"} },
		"containers":    func(g *ohmv1.Group) { g.Containers = []*ohmv1.Container{{Name: "a"}} },
		"cpuMaxMilli":   func(g *ohmv1.Group) { g.CpuMaxMilli = 1 },
		"pids":          func(g *ohmv1.Group) { g.Pids = 1 },
		"ports":         func(g *ohmv1.Group) { g.Ports = []*ohmv1.Port{{Name: "a"}} },
		"network":       func(g *ohmv1.Group) { g.Network = "own" },
		"health":        func(g *ohmv1.Group) { g.Health = &ohmv1.Health{} },
		"min":           func(g *ohmv1.Group) { g.Min = proto.Int32(2) },
		"count":         func(g *ohmv1.Group) { g.Count = 2 },
		"constraints":   func(g *ohmv1.Group) { g.Constraints = []*ohmv1.Constraint{{Key: "zone"}} },
		"affinity":      func(g *ohmv1.Group) { g.Affinity = []*ohmv1.Affinity{{Within: "zone"}} },
		"antiAffinity":  func(g *ohmv1.Group) { g.AntiAffinity = []*ohmv1.Affinity{{Within: "zone"}} },
		"deviceNodes":   func(g *ohmv1.Group) { g.DeviceNodes = "any" },
		"distinct":      func(g *ohmv1.Group) { g.Distinct = "zone" },
		"spread":        func(g *ohmv1.Group) { g.Spread = &ohmv1.Spread{Over: "zone"} },
		"startDeadline": func(g *ohmv1.Group) { g.StartDeadline = durationpb.New(1) },
	}
	none := []string{"affinity", "antiAffinity", "constraints", "count", "deviceNodes", "distinct", "min", "spread", "startDeadline"}
	fields := (&ohmv1.Group{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := fields.Get(i).JSONName(); name != "name" && changes[name] == nil {
			t.Errorf("does a change of %s reach a group's processes? Say it here", name)
		}
	}
	for name, change := range changes {
		want := []string{name}
		if in, other := map[string]string{"resources": "cpu", "box": "image", "cpuMaxMilli": "cpuMax"}[name]; other { // as a job file has it
			want = []string{in}
		}
		if slices.Contains(none, name) {
			want = nil
		}
		was, is := set(func(*ohmv1.Group) {}), set(change)
		if got := reconcile.Reaches(jobOf("service", was), jobOf("service", is), "main"); !slices.Equal(got, want) {
			t.Errorf("%s changed: %v, want %v", name, got, want)
		}
		if got := reconcile.Reaches(jobOf("service", is), jobOf("service", was), "main"); !slices.Equal(got, want) {
			t.Errorf("%s changed back: %v, want %v", name, got, want)
		}
		other := &ohmv1.Group{Name: "other", Count: 1}
		if got := reconcile.Reaches(jobOf("service", was, other), jobOf("service", is, other), "other"); got != nil {
			t.Errorf("%s of another group changed: %v", name, got)
		}
		if name == "count" {
			want = []string{"count"} // OHM_WORLD_SIZE
		}
		if got := reconcile.Reaches(jobOf("ml", was, other), jobOf("ml", is, other), "other"); !slices.Equal(got, want) {
			t.Errorf("%s of another role of the gang changed: %v, want %v", name, got, want)
		}
	}
	for name, change := range map[string]func(*ohmv1.JobSpec){
		"":           func(s *ohmv1.JobSpec) { s.Labels = map[string]string{"a": "b"} },
		" ":          func(s *ohmv1.JobSpec) { s.MaxRuntime, s.Retries = durationpb.New(1), 3 },
		"precedence": func(s *ohmv1.JobSpec) { s.Precedence = proto.Int32(7) },
	} {
		is := jobOf("batch", set(func(*ohmv1.Group) {}))
		change(is)
		if got := reconcile.Reaches(jobOf("batch", set(func(*ohmv1.Group) {})), is, "main"); strings.Join(got, " ") != strings.TrimSpace(name) {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// A group's version is the newest that reached its processes, over any number of changes.
func TestGroupVersions(t *testing.T) {
	a, b := &ohmv1.Group{Name: "a", Count: 1}, &ohmv1.Group{Name: "b", Count: 1}
	record := &ohmv1.Job{Version: 1}
	for _, step := range []struct {
		what   string
		change func()
		a, b   int64
	}{
		{"first", func() {}, 1, 1},
		{"count of a", func() { a.Count = 3 }, 1, 1},
		{"env of a", func() { a.Env = map[string]string{"A": "1"} }, 3, 1},
		{"count of b", func() { b.Count = 0 }, 3, 1},
		{"command of b", func() { b.Command = []string{"x"} }, 3, 5},
	} {
		step.change()
		spec := proto.CloneOf(jobOf("service", a, b))
		if record.Spec == nil {
			record.Spec = spec
		} else {
			record, _ = reconcile.Next(&cellstate.Job{Name: jobName(), Record: record}, spec, t0)
		}
		is := &cellstate.Job{Name: jobName(), Record: record}
		if gotA, gotB := is.VersionOf("a"), is.VersionOf("b"); gotA != step.a || gotB != step.b {
			t.Errorf("%s: a is of version %d, b of %d; want %d and %d", step.what, gotA, gotB, step.a, step.b)
		}
	}
}
