package jobspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
)

// good is a job file that the tests below spoil in one place each.
const good = `job: hello
kind: batch
groups:
  - name: main
    count: 4
    cpu: 100m
    memory: 64Mi
    command: [sh, -c, "echo hello"]
`

// with returns the good file with a piece replaced.
func with(t testing.TB, old, new string) string {
	t.Helper()
	if !strings.Contains(good, old) {
		t.Fatalf("the good file has no %q", old)
	}
	return strings.Replace(good, old, new, 1)
}

// refused checks that a file is refused with exactly these lines.
func refused(t *testing.T, file string, want ...string) {
	t.Helper()
	_, err := Parse("job.yaml", []byte(file))
	if err == nil {
		t.Errorf("accepted, want it refused:\n%s\n%s", file, strings.Join(want, "\n"))
		return
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		if len(file) > 400 {
			file = file[:400]
		}
		t.Errorf("%s\n(-want +got):\n%s", file, diff)
	}
}

func accepted(t *testing.T, file string) *ohmv1.JobSpec {
	t.Helper()
	spec, err := Parse("job.yaml", []byte(file))
	if err != nil {
		t.Fatalf("refused:\n%v\n%s", err, file)
	}
	return spec
}

func TestParseEveryField(t *testing.T) {
	got := accepted(t, `job: train                      # comments are free
namespace: research
kind: ml
scheduler: mine
precedence: production
labels: {team: vision, tier: 1}
gang: {min: 4, onTimeout: startWithMin, timeout: 10m, whenBroken: {then: release, after: 0s}}
retries: 3
maxRuntime: 1h30m
stop: {signal: SIGINT, grace: 0s, replace: atOnce}
whenSilent: {then: never, after: 90s}
groups:
  - name: worker
    count: 4
    min: 2
    command: [python3, train.py, --steps, 1000, true]
    env: {LR: 0.10, EPOCHS: 3, FAST: true, HEX: 0x1F, NAME: "a b", EMPTY: ""}
    cpu: 1.5
    memory: 1.2Gi
    disk: 10G
    gpus: {count: 1, models: [V100M32, T4], share: 460m}
    constraints:
      - {key: zone, in: [a, b]}
      - {key: rack, notIn: [7]}
      - {key: ssd, exists: true}
      - {key: old, absent: true}
      - {key: age, lt: 3}
      - {key: cores, gt: 7.5, always: true}
      - {key: kernel, version: ">= 5.10, < 7"}
  - name: ps
    command: [sleep, 5]
    cpu: "2"
    memory: 0
`)
	want := &ohmv1.JobSpec{
		Name: "train", Namespace: "research", Kind: "ml", Scheduler: "mine", Precedence: proto.Int32(200),
		Labels:  map[string]string{"team": "vision", "tier": "1"},
		Gang:    &ohmv1.Gang{Min: 4, OnTimeout: "startWithMin", Timeout: durationpb.New(10 * time.Minute), WhenBroken: &ohmv1.WhenBroken{Then: "release", After: durationpb.New(0)}},
		Retries: 3, MaxRuntime: durationpb.New(90 * time.Minute),
		Stop:       &ohmv1.StopPolicy{Signal: "SIGINT", Grace: durationpb.New(0), Replace: "atOnce"},
		WhenSilent: &ohmv1.WhenSilent{Then: "never", After: durationpb.New(90 * time.Second)},
		Groups: []*ohmv1.Group{{
			Name: "worker", Count: 4, Min: proto.Int32(2), Command: []string{"python3", "train.py", "--steps", "1000", "true"},
			Env:       map[string]string{"LR": "0.10", "EPOCHS": "3", "FAST": "true", "HEX": "0x1F", "NAME": "a b", "EMPTY": ""},
			Resources: &ohmv1.Resources{CpuMilli: 1500, MemoryBytes: 1288490189, DiskBytes: 1e10},
			Gpus:      &ohmv1.GPURequest{Count: 1, Models: []string{"V100M32", "T4"}, ShareMilli: 460},
			Constraints: []*ohmv1.Constraint{
				{Key: "zone", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{"a", "b"}},
				{Key: "rack", Op: ohmv1.Operator_OPERATOR_NOT_IN, Values: []string{"7"}},
				{Key: "ssd", Op: ohmv1.Operator_OPERATOR_EXISTS},
				{Key: "old", Op: ohmv1.Operator_OPERATOR_ABSENT},
				{Key: "age", Op: ohmv1.Operator_OPERATOR_LT, Values: []string{"3"}},
				{Key: "cores", Op: ohmv1.Operator_OPERATOR_GT, Values: []string{"7.5"}, Always: true},
				{Key: "kernel", Op: ohmv1.Operator_OPERATOR_VERSION, Values: []string{">= 5.10, < 7"}},
			},
		}, {
			Name: "ps", Count: 1, Command: []string{"sleep", "5"}, Resources: &ohmv1.Resources{CpuMilli: 2000},
		}},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrecedence(t *testing.T) {
	for kind, want := range map[string]int32{"batch": 100, "ml": 100, "service": 200} {
		if got := accepted(t, with(t, "kind: batch", "kind: "+kind)).GetPrecedence(); got != want {
			t.Errorf("%s: precedence %d, want %d", kind, got, want)
		}
	}
	for text, want := range map[string]int32{"free": 0, "batch": 100, "production": 200, "system": 300, "0": 0, "399": 399} {
		if got := accepted(t, with(t, "kind: batch", "kind: service\nprecedence: "+text)).GetPrecedence(); got != want {
			t.Errorf("%s: precedence %d, want %d", text, got, want)
		}
	}
	refused(t, with(t, "kind: batch", "kind: batch\nprecedence: 400"), "job.yaml:3:13: precedence 400 is not between 0 and 399")
	refused(t, with(t, "kind: batch", "kind: batch\nprecedence: prod"),
		`job.yaml:3:13: precedence "prod" is not a number from 0 to 399 and is not one of free, batch, production, system; did you mean production?`)
}

func TestFormsOfAFile(t *testing.T) {
	plain := accepted(t, good)
	for name, file := range map[string]string{
		"carriage returns":   strings.ReplaceAll(good, "\n", "\r\n"),
		"byte order mark":    "\uFEFF" + good,
		"document markers":   "---\n" + good + "...\n",
		"an empty second":    good + "---\n# nothing\n",
		"no newline at end":  strings.TrimSuffix(good, "\n"),
		"JSON":               `{"job": "hello", "kind": "batch", "groups": [{"name": "main", "count": 4, "cpu": "100m", "memory": "64Mi", "command": ["sh", "-c", "echo hello"]}]}`,
		"JSON with tabs":     "{\n\t\"job\": \"hello\", \"kind\": \"batch\",\n\t\"groups\": [{\n\t\t\"name\": \"main\", \"count\": 4, \"cpu\": \"100m\", \"memory\": \"64Mi\", \"command\": [\"sh\", \"-c\", \"echo hello\"]}]}",
		"the list in blocks": strings.Replace(good, `[sh, -c, "echo hello"]`, "\n      - sh\n      - -c\n      - echo hello", 1),
	} {
		got, err := Parse("job.yaml", []byte(file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !proto.Equal(plain, got) {
			t.Errorf("%s: %v", name, cmp.Diff(plain, got, protocmp.Transform()))
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		old, new string
		want     []string
	}{
		{"    memory: 64Mi\n", "", []string{"4:5: memory is missing; say how much each task needs, e.g. memory: 64Mi"}},
		{"    cpu: 100m\n", "", []string{"4:5: cpu is missing; say how much each task needs, e.g. cpu: 100m"}},
		{"100m", "0", []string{"6:10: cpu is 0; say how much each task needs, e.g. cpu: 100m"}},
		{"100m", "-1", []string{`6:10: cpu "-1" is negative; did you mean 1?`}},
		{"100m", "[1]", []string{"6:10: cpu must be a single value, not a list"}},
		{"count: 4", "count:", []string{"5:5: count has no value"}},
		{"count: 4", "count: -1", []string{"5:12: count -1 is negative"}},
		{"count: 4", "count: 99999999999", []string{"5:12: count 99999999999 is out of range"}},
		{"count: 4", "count: 1000001", []string{"4:3: the job has 1000001 tasks, more than the limit of 1000000"}},
		{"count: 4", "count: 0x10", []string{"5:12: count 0x10 is not a whole number; write digits, e.g. count: 3"}},
		{"kind: batch", "kind: system", []string{"5:5: a system job has no count; it runs one task on each eligible node"}},
		{"kind: batch\n", "", []string{"1:1: kind is missing; it is one of service, batch, ml, system"}},
		{"kind: batch", "kind: Batch", []string{`2:7: kind "Batch" is not one of service, batch, ml, system; did you mean batch?`}},
		{`[sh, -c, "echo hello"]`, "echo hi", []string{`8:14: command must be a list, not text; write command: [sh, -c, "echo hi"]`}},
		{`[sh, -c, "echo hello"]`, "[]", []string{`8:14: command is missing; say what each task runs, e.g. command: [sh, -c, "echo hello"]`}},
		{`[sh, -c, "echo hello"]`, "[sh, ~]", []string{`8:19: command has no value; write "" for empty text`}},
		{"kind: batch", "kind: service\nretries: 3\ngang: {min: 2}", []string{
			"3:1: retries is only for batch and ml jobs, and this is a service job",
			"4:1: gang is only for ml jobs, and this is a service job"}},
		{"kind: batch", "kind: service\nretries: 0", []string{"3:1: retries is only for batch and ml jobs, and this is a service job"}},
		{"kind: batch", "kind: ml\ngang: {min: 9, max: 3, onTimeout: startWithMin, timeout: 10}", []string{
			"3:13: gang.min 9 is more than the 4 tasks of all groups",
			`3:16: unknown key "max"; the most are the counts of the groups, and the fewest gang.min or min of a group`,
			`3:58: gang.timeout "10" has no unit; did you mean 10s?`}},
		{"kind: batch", "kind: service\nwhenSilent: {then: never, after: 5}\nstop: {replace: now}", []string{
			"3:20: whenSilent.then never is only for batch and ml jobs, and this is a service job",
			`3:34: whenSilent.after "5" has no unit; did you mean 5s?`,
			`4:17: stop.replace "now" is not one of afterExit, atOnce`}},
		{"kind: batch", "kind: ml\ngang: {onTimeout: startWithMin}", []string{"3:7: gang.timeout is missing; onTimeout: startWithMin needs one, e.g. timeout: 10m"}},
		{"kind: batch", "kind: ml\ngang: {onTimeout: start, timeout: 1m}", []string{`3:19: gang.onTimeout "start" is not one of wait, fail, startWithMin; did you mean startWithMin?`}},
		{"kind: batch", "kind: ml\ngang: {whenBroken: {then: keep, after: 1m}}", []string{"3:40: gang.whenBroken.after is not for then: keep, which keeps them for ever"}},
		{"kind: batch", "kind: ml\ngang: {whenBroken: {then: wait, after: -1s}}", []string{
			`3:27: gang.whenBroken.then "wait" is not one of release, keep`, `3:40: after "-1s" is not a duration; write a number and a unit, such as 30s, 10m or 2h`}},
		{"kind: batch", "kind: ml\nupdate: {maxUnavailable: 1}", []string{"3:1: update is only for service jobs, and this is a ml job"}},
		{"count: 4", "count: 4\n    min: 2", []string{"6:5: min is only for ml jobs, and this is a batch job"}},
		{"kind: batch", "kind: ml\ngang: {min: 0}", []string{"3:13: gang.min 0 is not at least 1; leave it out for all tasks"}},
		{"kind: batch", "kind: ml\ngang: {onTimeout: fail}", []string{"3:7: gang.timeout is missing; onTimeout: fail needs one, e.g. timeout: 10m"}},
		{"kind: batch", "kind: batch\nmaxRuntime: 0s", []string{"3:13: maxRuntime is less than 1ms; leave it out for no limit"}},
		{"kind: batch", "kind: batch\nmaxRuntime: -5s", []string{`3:13: maxRuntime "-5s" is not a duration; write a number and a unit, such as 30s, 10m or 2h`}},
		{"kind: batch", "kind: batch\nmaxRuntime: 99999h", []string{"3:13: maxRuntime is longer than ten years; leave it out for no limit"}},
		{"kind: batch", "kind: batch\nstop: {signal: TERM, grace: 1d}", []string{
			`3:16: stop.signal "TERM" is not a signal's name; did you mean SIGTERM?`,
			`3:29: stop.grace "1d" has an unknown unit; did you mean 24h?`}},
		{"kind: batch", "kind: batch\nlabels: {-a: b}", []string{`3:10: label "-a" is not allowed; use 1 to 63 letters, digits and "-_./", with a letter or digit at both ends`}},
		{"    cpu", "    gpus: {count: 2, share: 460m}\n    cpu", []string{"6:29: gpus.share goes only with count 1, and count is 2"}},
		{"    cpu", "    gpus: {count: 2, share: 4Gi}\n    cpu", []string{"6:29: gpus.share goes only with count 1, and count is 2"}},
		{"    cpu", "    gpus: {share: 4GiB}\n    cpu", []string{`6:19: gpus.share "4GiB" has an unknown unit "GiB"; did you mean 4Gi?`}},
		{"    cpu", "    gpus: {memory: 16, sameModel: 1}\n    cpu", []string{`6:20: gpus.memory "16" has no unit; did you mean 16M or 16Mi?`, `6:35: gpus.sameModel "1" is not true or false; did you mean true?`}},
		{"    cpu", "    deviceNodes: first\n    cpu", []string{`6:18: deviceNodes "first" is not one of last, any`}},
		{"    cpu", "    deviceNodes: any\n    gpus: {count: 1}\n    cpu", []string{"6:18: deviceNodes does not go with gpus; it is about tasks without any"}},
		{"    cpu", "    gpus: {count: 0}\n    cpu", []string{"6:19: gpus.count 0 is not at least 1; leave gpus out for none"}},
		{"    cpu", "    gpus: 2\n    cpu", []string{"6:11: gpus must be a map of keys and values, not a number"}},
		{"    cpu", "    env: {OHM_X: 1, \"a b\": 1, N: ~, L: []}\n    cpu", []string{
			"6:11: env name \"OHM_X\" is not allowed; names that begin with OHM_ are set by Ohm",
			`6:21: env name "a b" is not allowed; use letters, digits and "_", with no digit first`,
			`6:34: env N has no value; write "" for empty text`,
			"6:40: env L must be a single value, not a list"}},
		{"    cpu", "    constraints:\n      - {key: z, in: [a], exists: true}\n      - {key: z}\n      - {in: [a]}\n      - {key: z, exists: false}\n      - {key: z, absent: yes}\n      - {key: z, in: []}\n      - {key: z, equals: a}\n    cpu", []string{
			"7:27: a constraint has exactly one of in, notIn, exists, absent, lt, gt, version, and this one has in already",
			"8:9: the constraint has no operator; it takes one of in, notIn, exists, absent, lt, gt, version",
			"9:9: key is missing; it names a label or attribute of nodes, e.g. key: zone",
			"10:26: exists takes only true; did you mean absent: true?",
			`11:26: absent "yes" is not true; write absent: true`,
			"12:22: in has no values",
			`13:18: unknown key "equals"; the keys here are key, in, notIn, exists, absent, lt, gt, version, always`}},
		{"    cpu", "    constraints:\n      - {key: z, lt: 8Gi}\n      - {key: z, gt: [1]}\n      - {key: z, version: latest}\n      - {key: z, exists: true, always: yes}\n      - {key: z, <: 1}\n    cpu", []string{
			`7:22: lt "8Gi" is not a number; write plain digits, e.g. lt: 64`,
			"8:22: gt must be a single value, not a list",
			`9:27: version "latest" is not a list of bounds; write e.g. version: ">= 1.2, < 2"`,
			`10:40: always "yes" is not true or false; did you mean true?`,
			`11:18: unknown key "<"; did you mean "lt"?`}},
		{"count: 4", "count: &c 4", []string{"5:12: anchors and aliases are not supported; write the value out"}},
		{"count: 4", "count: !!int 4", []string{"5:12: tags such as !!str are not supported; write the value without"}},
		{"count: 4", "<<: {count: 4}", []string{"5:5: this key is not plain text; merge keys and complex keys are not supported"}},
		{good, "", []string{"1:1: the file is empty; a job file begins with job: and the job's name"}},
		{"hello", "\xff", []string{"1:6: the file is not UTF-8 text from here on"}},
		{"[sh, -c, \"echo hello\"]", "[sh", []string{"8:14: not valid YAML: sequence end token ']' not found"}},
		{good, strings.Repeat("[", 1000), []string{"1:51: maps and lists are nested more than 50 deep"}},
		{good, strings.Repeat("- ", 1000), []string{"1:101: maps and lists are nested more than 50 deep"}},
		{good, strings.Repeat("a: b\n", 10_001), []string{"10001:2: the file has more than 10000 keys"}},
	} {
		want := make([]string, len(c.want))
		for i, w := range c.want {
			want[i] = "job.yaml:" + w
		}
		refused(t, with(t, c.old, c.new), want...)
	}
}

func TestFieldsOfLaterReleasesAreRefusedByName(t *testing.T) {
	for _, s := range sections() {
		for _, f := range s.rows {
			if !f.later {
				continue
			}
			switch s.name {
			case "the job":
				refused(t, with(t, "groups:", f.name+": {}\ngroups:"), fmt.Sprintf("job.yaml:3:1: %s is not supported yet", f.name))
			case "a group":
				refused(t, with(t, "count: 4", f.name+": {}"), fmt.Sprintf("job.yaml:5:5: %s is not supported yet", f.name))
			}
		}
	}
	for _, name := range []string{"restart"} {
		refused(t, with(t, "count: 4", name+": 1"), fmt.Sprintf("job.yaml:5:5: %s is not supported yet", name))
	}
}

func TestFaultsAsJSON(t *testing.T) {
	_, err := Parse("job.yaml", []byte(with(t, "count", "cout")))
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error of type %T", err)
	}
	got, err := json.Marshal(faults)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"file":"job.yaml","line":5,"column":5,"severity":"error","message":"unknown key \"cout\"; did you mean \"count\"?"}]`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	kinds, names := map[string]bool{}, map[string]bool{}
	versions, _ := filepath.Glob("../../examples/*/v[0-9].yaml") // of one job each folder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := Parse(file, data)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		Defaults(spec)
		if ps := Validate(spec); len(ps) > 0 {
			t.Errorf("%s with defaults: %v", file, ps)
		}
		if !strings.HasPrefix(string(data), "# ") {
			t.Errorf("%s does not say what it shows", file)
		}
		if names[spec.Name] && !slices.Contains(versions, file) {
			t.Errorf("%s: a second job named %s", file, spec.Name)
		}
		kinds[spec.Kind], names[spec.Name] = true, true
	}
	for _, kind := range Kinds() {
		if !kinds[kind] {
			t.Errorf("no example of kind %s", kind)
		}
	}
}

func TestReference(t *testing.T) {
	text := Reference()
	for _, s := range sections() {
		for _, f := range s.rows {
			if !strings.Contains(text, "`"+f.name+"`") {
				t.Errorf("the reference does not name %s of %s", f.name, s.name)
			}
			if !f.later && (f.form == "" || f.meaning == "") {
				t.Errorf("%s of %s is not described", f.name, s.name)
			}
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if cells := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); strings.HasPrefix(line, "|") && cells != 6 {
			t.Errorf("line %d has %d bars: %s", i+1, cells, line)
		}
	}
}
