package jobspec

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
)

// sound is a job as a client without a file sends it.
func sound() *ohmv1.JobSpec {
	return &ohmv1.JobSpec{Name: "a", Kind: "ml", Groups: []*ohmv1.Group{{
		Name: "main", Count: 4, Command: []string{"true"}, Resources: &ohmv1.Resources{CpuMilli: 100, MemoryBytes: 1 << 20},
	}}}
}

func TestValidate(t *testing.T) {
	type job = ohmv1.JobSpec
	for _, c := range []struct {
		spoil func(j *job)
		want  []Problem
	}{
		{func(j *job) {}, nil},
		{func(j *job) { j.Groups[0].Resources.MemoryBytes = 0 }, nil}, // real traces have such tasks
		{func(j *job) { j.Groups[0].Count = 0 }, nil},
		{func(j *job) { j.Kind, j.Groups[0].Count = "system", 0 }, nil},
		{func(j *job) { j.Kind = "" }, []Problem{{"kind", "kind is missing; it is one of service, batch, ml, system"}}},
		{func(j *job) { j.Kind, j.Gang = "x", &ohmv1.Gang{Min: 99} }, []Problem{{"kind", `kind "x" is not one of service, batch, ml, system`}}},
		{func(j *job) { j.Kind = "system" }, []Problem{{"groups[0].count", "a system job has no count; it runs one task on each eligible node"}}},
		{func(j *job) { j.Kind, j.Retries = "service", 1 }, []Problem{{"retries", "retries is only for batch and ml jobs, and this is a service job"}}},
		{func(j *job) { j.Kind, j.Gang = "batch", &ohmv1.Gang{} }, []Problem{{"gang", "gang is only for ml jobs, and this is a batch job"}}},
		{func(j *job) { j.Gang = &ohmv1.Gang{Min: -1, OnTimeout: "later"} }, []Problem{
			{"gang.min", "gang.min -1 is not at least 1"}, {"gang.onTimeout", `gang.onTimeout "later" is not one of wait, fail, startWithMin`}}},
		{func(j *job) { j.Groups[0].Min = proto.Int32(5) }, []Problem{{"groups[0].min", "min 5 is more than the count 4"}}},
		{func(j *job) { j.Gang = &ohmv1.Gang{Min: 5} }, []Problem{{"gang.min", "gang.min 5 is more than the 4 tasks of all groups"}}},
		{func(j *job) { j.Gang = &ohmv1.Gang{Timeout: durationpb.New(-1)} }, []Problem{{"gang.timeout", "gang.timeout is negative"}}},
		{func(j *job) { j.Precedence = proto.Int32(-1) }, []Problem{{"precedence", "precedence -1 is not between 0 and 399"}}},
		{func(j *job) { j.Retries = -1 }, []Problem{{"retries", "retries -1 is negative"}}},
		{func(j *job) { j.MaxRuntime = durationpb.New(0) }, []Problem{{"maxRuntime", "maxRuntime is less than 1ms; leave it out for no limit"}}},
		{func(j *job) { j.MaxRuntime = &durationpb.Duration{Seconds: math.MaxInt64} }, []Problem{{"maxRuntime", "maxRuntime is longer than ten years; leave it out for no limit"}}},
		{func(j *job) { j.Stop = &ohmv1.StopPolicy{Signal: "9", Grace: durationpb.New(-time.Second)} }, []Problem{
			{"stop.signal", `stop.signal "9" is not one of ` + strings.Join(Signals(), ", ")}, {"stop.grace", "stop.grace is negative"}}},
		{func(j *job) { j.WhenSilent = &ohmv1.WhenSilent{Then: "wait", After: durationpb.New(1)} }, []Problem{
			{"whenSilent.then", `whenSilent.then "wait" is not one of replace, keep, never`}, {"whenSilent.after", "whenSilent.after is less than 1s"}}},
		{func(j *job) { j.WhenSilent = &ohmv1.WhenSilent{Then: "never", After: durationpb.New(time.Second)} }, nil},
		{func(j *job) { j.Kind, j.WhenSilent = "service", &ohmv1.WhenSilent{Then: "never"} }, []Problem{
			{"whenSilent.then", "whenSilent.then never is only for batch and ml jobs, and this is a service job"}}},
		{func(j *job) { j.Kind, j.Groups[0].Count, j.Stop = "system", 0, &ohmv1.StopPolicy{Replace: "atOnce"} }, []Problem{
			{"stop.replace", "stop.replace atOnce is only for service, batch and ml jobs, and this is a system job"}}},
		{func(j *job) { j.Stop = &ohmv1.StopPolicy{Replace: "never"} }, []Problem{{"stop.replace", `stop.replace "never" is not one of afterExit, atOnce`}}},
		{func(j *job) { j.Labels = map[string]string{"b": "\n", "": "x"} }, []Problem{
			{"labels.", `label "" is not allowed; use 1 to 63 letters, digits and "-_./", with a letter or digit at both ends`},
			{"labels.b", `label "b": its value must be at most 256 bytes of printable text`}}},
		{func(j *job) { j.Groups = nil }, []Problem{{"groups", "the job has no groups of tasks; it needs at least one, e.g. groups: [{name: main, …}]"}}},
		{func(j *job) { j.Groups = append(j.Groups, j.Groups[0], nil) }, []Problem{
			{"groups[1].name", `two groups are named "main"`}, {"groups[2]", "the group is empty"}}},
		{func(j *job) { j.Groups[0].Count = math.MaxInt32 }, []Problem{{"groups", "the job has 2147483647 tasks, more than the limit of 1000000"}}},
		{func(j *job) { j.Groups[0].Command = nil }, []Problem{{"groups[0].command", `command is missing; say what each task runs, e.g. command: [sh, -c, "echo hello"]`}}},
		{func(j *job) { j.Groups[0].Command = []string{"", "a\x00"} }, []Problem{
			{"groups[0].command", "command begins with an empty word; the first one names the program"},
			{"groups[0].command[1]", "command has a zero byte or text that is not UTF-8 in it"}}},
		{func(j *job) { j.Groups[0].Env = map[string]string{"1": "", "OHM_NODE": "", "V": "\x00"} }, []Problem{
			{"groups[0].env.1", `env name "1" is not allowed; use letters, digits and "_", with no digit first`},
			{"groups[0].env.OHM_NODE", `env name "OHM_NODE" is not allowed; names that begin with OHM_ are set by Ohm`},
			{"groups[0].env.V", "env V has a zero byte or text that is not UTF-8 in it"}}},
		{func(j *job) { j.Groups[0].Resources = nil }, []Problem{{"groups[0].cpu", "cpu is missing; say how much each task needs, e.g. cpu: 100m"}}},
		{func(j *job) {
			j.Groups[0].Resources = &ohmv1.Resources{CpuMilli: -1, MemoryBytes: -1 << 20, DiskBytes: resource.MaxBytes * 2}
		}, []Problem{
			{"groups[0].cpu", "cpu -1m is negative"}, {"groups[0].memory", "memory -1Mi is negative"},
			{"groups[0].disk", "disk 2048Ti is too much; the most is 1024Ti"}}},
		{func(j *job) { j.Groups[0].Gpus = &ohmv1.GPURequest{} }, []Problem{{"groups[0].gpus.count", "gpus.count 0 is not at least 1; leave gpus out for none"}}},
		{func(j *job) { j.Groups[0].Gpus = &ohmv1.GPURequest{Count: 2, ShareMilli: 1} }, []Problem{{"groups[0].gpus.share", "gpus.share goes only with count 1, and count is 2"}}},
		{func(j *job) { j.Groups[0].Gpus = &ohmv1.GPURequest{Count: 1, ShareMilli: 1, ShareBytes: 1 << 20} }, []Problem{{"groups[0].gpus.share", "gpus.share is given twice, as 1m and as 1Mi"}}},
		{func(j *job) {
			j.Groups[0].Gpus = &ohmv1.GPURequest{Count: 1, MemoryBytes: -1 << 20, ShareBytes: resource.MaxBytes * 2}
		}, []Problem{
			{"groups[0].gpus.memory", "gpus.memory -1Mi is not between 0 and 1024Ti"}, {"groups[0].gpus.share", "gpus.share 2048Ti is not between 0 and 1024Ti"}}},
		{func(j *job) { j.Kind, j.Groups[0].Count, j.Groups[0].DeviceNodes = "system", 0, "any" }, []Problem{{"groups[0].deviceNodes", "deviceNodes is only for service, batch and ml jobs, and this is a system job"}}},
		{func(j *job) { j.Groups[0].Gpus = &ohmv1.GPURequest{Count: 1, ShareMilli: 1001, Models: []string{""}} }, []Problem{
			{"groups[0].gpus.share", "gpus.share 1001m is not between 1m and 1000m"}, {"groups[0].gpus.models[0]", `gpus.models: "" is not a model's name`}}},
		{func(j *job) {
			j.Groups[0].Constraints = []*ohmv1.Constraint{nil, {Key: "z"}, {Key: "z", Op: 99}, {Key: "z", Op: ohmv1.Operator_OPERATOR_IN},
				{Key: "z", Op: ohmv1.Operator_OPERATOR_EXISTS, Values: []string{"a"}}}
		}, []Problem{
			{"groups[0].constraints[0].key", "key is missing; it names a label or attribute of nodes, e.g. key: zone"},
			{"groups[0].constraints[0]", "the constraint has no operator; it takes one of in, notIn, exists, absent, lt, gt, version"},
			{"groups[0].constraints[1]", "the constraint has no operator; it takes one of in, notIn, exists, absent, lt, gt, version"},
			{"groups[0].constraints[2]", "the constraint has no operator; it takes one of in, notIn, exists, absent, lt, gt, version"},
			{"groups[0].constraints[3].in", "in has no values"},
			{"groups[0].constraints[4].exists", "exists takes no values"}}},
		{func(j *job) { j.Groups[0].Command = []string{strings.Repeat("a", 2<<20)} }, []Problem{{"", "the job takes 2097185 bytes, more than the limit of 1Mi"}}},
	} {
		spec := sound()
		c.spoil(spec)
		if diff := cmp.Diff(c.want, Validate(spec)); diff != "" {
			t.Errorf("%v\n(-want +got):\n%s", c.want, diff)
		}
	}
	if ps := Validate(nil); len(ps) != 1 {
		t.Errorf("no job at all: %v", ps)
	}
}

func TestDefaults(t *testing.T) {
	spec := sound()
	spec.Groups = append(spec.Groups, proto.Clone(spec.Groups[0]).(*ohmv1.Group))
	spec.Groups[1].Name, spec.Groups[1].Count = "ps", 2
	want := proto.Clone(spec).(*ohmv1.JobSpec)
	want.Namespace, want.Scheduler = "default", "ml"
	want.Stop = &ohmv1.StopPolicy{Signal: "SIGTERM", Grace: durationpb.New(30 * time.Second), Replace: "afterExit"}
	want.WhenSilent = &ohmv1.WhenSilent{Then: "replace"}
	want.Gang, want.Precedence = &ohmv1.Gang{Min: 6, OnTimeout: "wait", WhenBroken: &ohmv1.WhenBroken{Then: "release", After: durationpb.New(5 * time.Minute)}}, proto.Int32(100)
	want.Groups[0].Ports = []*ohmv1.Port{{Name: "a", Number: 80}, {Name: MasterPort}, {Name: "z"}}
	want.Groups[1].Ports = []*ohmv1.Port{{Name: MasterPort, Number: 29500}} // the job's own
	spec.Groups[0].Ports = []*ohmv1.Port{{Name: "z"}, {Name: "a", Number: 80}}
	spec.Groups[1].Ports = want.Groups[1].Ports
	Defaults(spec)
	if diff := cmp.Diff(want, spec, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	Defaults(spec)
	if diff := cmp.Diff(want, spec, protocmp.Transform()); diff != "" {
		t.Errorf("a second time (-want +got):\n%s", diff)
	}

	given := &ohmv1.JobSpec{Namespace: "n", Kind: "service", Scheduler: "mine", Precedence: proto.Int32(0), Stop: &ohmv1.StopPolicy{Signal: "SIGINT", Grace: durationpb.New(0), Replace: "afterExit"},
		WhenSilent: &ohmv1.WhenSilent{Then: "keep", After: durationpb.New(time.Hour)},
		Update:     &ohmv1.UpdatePolicy{MaxUnavailable: &ohmv1.Amount{}, Steady: durationpb.New(0), ProgressDeadline: durationpb.New(1), OnFailure: "revert"}}
	want = proto.Clone(given).(*ohmv1.JobSpec)
	if Defaults(given); !proto.Equal(want, given) {
		t.Errorf("what was given was changed: %v", given)
	}
	for kind, want := range map[string]string{"service": "replace atOnce", "batch": "replace afterExit", "ml": "replace afterExit", "system": "keep afterExit"} {
		spec := &ohmv1.JobSpec{Kind: kind}
		if Defaults(spec); spec.WhenSilent.Then+" "+spec.Stop.Replace != want {
			t.Errorf("%s: %v, %v", kind, spec.WhenSilent, spec.Stop)
		}
	}
}

// FuzzParse: no file makes Parse crash; what parses passes Validate with and
// without its defaults; every fault has a place in the file and a message.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("job: a\nkind: ml\ngang: {min: 1, onTimeout: fail, timeout: 10m}\nstop: {signal: SIGINT}\ngroups:\n- name: m\n  cpu: 1\n  memory: 0\n  command: [a]\n  gpus: {models: [T4], share: 460m}\n  constraints: [{key: z, in: [a]}, {key: y, absent: true}]\n"))
	f.Add([]byte("{\"job\": \"a\",\n\t\"groups\": [{}]}"))
	f.Add([]byte("a: &x 1\njob: *x\n<<: *x\n? [a]\n: b\n---\n...\n%YAML 1.2\n"))
	f.Add([]byte("job: |\n  a\n\tb\nkind: >-\n  batch\n"))
	f.Add([]byte("groups: !!map\n- - - a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := Parse("f", data)
		if err != nil {
			faults := err.(Faults)
			lines := strings.Count(string(data), "\n") + 1
			for _, fault := range faults {
				if fault.Line < 1 || fault.Line > lines+strings.Count(string(data), "\r") || fault.Column < 1 || fault.Message == "" {
					t.Errorf("%d lines: %+v", lines, fault)
				}
			}
			if spec != nil || len(faults) == 0 {
				t.Errorf("job %v with faults %v", spec, faults)
			}
			return
		}
		if ps := Validate(spec); len(ps) > 0 {
			t.Errorf("parsed, and %v", ps)
		}
		Defaults(spec)
		if ps := Validate(spec); len(ps) > 0 {
			t.Errorf("with defaults: %v", ps)
		}
		if _, err := proto.Marshal(spec); err != nil {
			t.Error(err)
		}
	})
}
