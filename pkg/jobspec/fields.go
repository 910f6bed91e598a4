package jobspec

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// field is one key of a job file: what the reference says of it and how it is
// read. The parser knows no keys but these.
type field[T any] struct {
	name, form, preset, meaning string
	kinds                       string   // the only kinds of job that have it; "": all
	later                       bool     // belongs to a later release: refused by name
	aka                         []string // what it is called elsewhere, for "did you mean"
	read                        func(r *reader, at place, v ast.Node, into *T)
}

func later[T any](name string) field[T] { return field[T]{name: name, later: true} }

func jobFields() []field[ohmv1.JobSpec] {
	type job = ohmv1.JobSpec
	return []field[job]{
		{name: "job", form: "name", preset: "required", meaning: "The job's name, unique in its namespace.", aka: []string{"name", "id"},
			read: func(r *reader, at place, v ast.Node, j *job) { j.Name, _ = r.text(at, v) }},
		{name: "namespace", form: "name", preset: "`default`", meaning: "The namespace that the job's name is in.",
			read: func(r *reader, at place, v ast.Node, j *job) { j.Namespace = r.name(at, v) }},
		{name: "kind", form: strings.Join(Kinds(), " \\| "), preset: "required", meaning: "What sort of job it is, and with that who places it and what its end means.", aka: []string{"type"},
			read: func(r *reader, at place, v ast.Node, j *job) { j.Kind = r.name(at, v) }},
		{name: "scheduler", form: "name", preset: "the kind", meaning: "The scheduler that places the job: one of the four named like the kinds, or a custom one by its registered name.",
			read: func(r *reader, at place, v ast.Node, j *job) { j.Scheduler = r.name(at, v) }},
		{name: "precedence", form: "free (0) \\| batch (100) \\| production (200) \\| system (300), or 0 to 399", preset: "batch and ml: `batch`, service: `production`, system: `system`",
			meaning: "How important the job is in the whole cell.", aka: []string{"priority"},
			read: func(r *reader, at place, v ast.Node, j *job) { j.Precedence = proto.Int32(r.precedence(at, v)) }},
		{name: "labels", form: "map of text", preset: "none", meaning: "Labels of the job, for people and tools.",
			read: func(r *reader, at place, v ast.Node, j *job) { j.Labels = r.textMap(at, v) }},
		{name: "gang", form: "map", preset: "all tasks together", meaning: "How many tasks, of all groups together, start as one or not at all.", kinds: "ml",
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.Gang = &ohmv1.Gang{}
				readMap(r, at, v, gangFields(), j.Gang)
			}},
		{name: "retries", form: "number, or `never`", preset: "0", meaning: "How many more attempts a task gets after it failed by its own fault. `never`: it is started at most once, whatever becomes of it.", kinds: "batch, ml", aka: []string{"attempts", "backoffLimit"},
			read: func(r *reader, at place, v ast.Node, j *job) { j.Retries, j.StartOnce = r.retries(at, v) }},
		{name: "retry", form: "map", preset: "any failure may be retried", meaning: "Which ends are final, which spend one of the `retries`, and how long the next attempt waits.", kinds: "batch, ml", aka: []string{"retryPolicy", "podFailurePolicy"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.Retry = &ohmv1.RetryPolicy{}
				readMap(r, at, v, retryFields(), j.Retry)
			}},
		{name: "maxParallel", form: "number", preset: "any number", meaning: "How many tasks of the job run at a time, at most, whoever places them: the others follow in the order of their index.", kinds: "batch", aka: []string{"parallelism", "maxConcurrent", "concurrency"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				// In the message 0 stands for no limit; whoever writes 0 means something else.
				if j.MaxParallel = r.whole(at, v); j.MaxParallel == 0 && !r.bad[at.path] {
					r.fault(at, "maxParallel 0 is not at least 1; leave it out for no limit")
				}
			}},
		{name: "allowedFailures", form: "number", preset: "0", meaning: "How many tasks may fail for good, and the job has succeeded all the same once all others have.", kinds: "batch", aka: []string{"maxFailures", "maxFailed", "failureThreshold"},
			read: func(r *reader, at place, v ast.Node, j *job) { j.AllowedFailures = r.whole(at, v) }},
		{name: "maxRuntime", form: "duration", preset: "no limit", meaning: "How long one attempt may run.", aka: []string{"timeout"},
			read: func(r *reader, at place, v ast.Node, j *job) { j.MaxRuntime = r.duration(at, v) }},
		{name: "deadline", form: "duration", preset: "none", meaning: "How long a run may take from its submission, waiting included. One that takes longer has failed, as TimedOut.", kinds: "batch, ml", aka: []string{"runDeadline", "activeDeadlineSeconds"},
			read: func(r *reader, at place, v ast.Node, j *job) { j.Deadline = r.duration(at, v) }},
		{name: "schedule", form: "map", preset: "none: it runs when it is submitted", meaning: "When runs begin by themselves: see [pipelines.md](pipelines.md#schedules).", kinds: "batch, ml", aka: []string{"cron", "periodic", "cronSchedule"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.Schedule = &ohmv1.Cron{}
				readMap(r, at, v, scheduleFields(), j.Schedule)
			}},
		{name: "after", form: "map", preset: "none", meaning: "The jobs that a run follows: see [pipelines.md](pipelines.md#one-job-after-another).", kinds: "batch, ml", aka: []string{"depends", "dependsOn", "needs", "dependencies"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.After = &ohmv1.After{}
				readMap(r, at, v, afterFields(), j.After)
			}},
		{name: "stop", form: "map", preset: "`{signal: SIGTERM, grace: 30s}`", meaning: "How a task is stopped.",
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.Stop = &ohmv1.StopPolicy{}
				readMap(r, at, v, stopFields(), j.Stop)
			}},
		{name: "whenSilent", form: "map", preset: "`{then: replace}`; system: `{then: keep}`", meaning: "What becomes of a task when nothing is heard of its node any more.", aka: []string{"disconnect", "reschedule", "lost"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.WhenSilent = &ohmv1.WhenSilent{}
				readMap(r, at, v, whenSilentFields(), j.WhenSilent)
			}},
		{name: "disruption", form: "map", preset: "none: others may take as many tasks as they need", meaning: "How many tasks may be down at a time for what others want: evictions and drains.", kinds: disruptedKinds, aka: []string{"disruptionBudget", "podDisruptionBudget", "migrate"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.Disruption = &ohmv1.Disruption{}
				readMap(r, at, v, disruptionFields(), j.Disruption)
			}},
		{name: "update", form: "map", preset: "a quarter of the tasks at a time", meaning: "How the tasks of a service come to a new version.", kinds: "service", aka: []string{"rollout", "strategy", "deployment", "updateStrategy"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				j.Update = &ohmv1.UpdatePolicy{}
				readMap(r, at, v, updateFields(), j.Update)
			}},
		{name: "groups", form: "list", preset: "required", meaning: "The groups of tasks; at least one.", aka: []string{"tasks"},
			read: func(r *reader, at place, v ast.Node, j *job) {
				for i, item := range r.list(at, v) {
					g := &ohmv1.Group{Resources: &ohmv1.Resources{}}
					readMap(r, at.item(i), item, groupFields(), g)
					j.Groups = append(j.Groups, g)
				}
			}},
		later[job]("restart"),
	}
}

func gangFields() []field[ohmv1.Gang] {
	type gang = ohmv1.Gang
	return []field[gang]{
		{name: "min", form: "number", preset: "all tasks; with `min` of groups, the sum of these and of the other groups' counts", meaning: "The fewest tasks, of all groups together, that the gang starts and goes on with. The `count`s are the most.", aka: []string{"minCount", "minMember", "minAvailable"},
			read: func(r *reader, at place, v ast.Node, g *gang) {
				// In the message 0 stands for all tasks; whoever writes 0 means something else.
				if g.Min = r.whole(at, v); g.Min == 0 && !r.bad[at.path] {
					r.fault(at, "gang.min 0 is not at least 1; leave it out for all tasks")
				}
			}},
		{name: "onTimeout", form: strings.Join(timeoutAnswers(), " \\| "), preset: "`wait`", meaning: "What happens when the gang has found no room for all of its tasks within `timeout`: it goes on waiting for all, the job fails (unless it has run already), or it starts with as many as there is room for, at least `min`.",
			read: func(r *reader, at place, v ast.Node, g *gang) { g.OnTimeout = r.name(at, v) }},
		{name: "timeout", form: "duration", preset: "none: it starts as soon as there is room for `min`; required with `onTimeout: fail` and `startWithMin`", meaning: "How long the gang waits for room for all of its tasks.",
			read: func(r *reader, at place, v ast.Node, g *gang) { g.Timeout = r.duration(at, v) }},
		{name: "within", form: "`node`, or a label or attribute", preset: "anywhere", meaning: "All tasks are on nodes with the same value of it, such as one rack: the gang waits rather than come apart, and its nodes have it. See [gangs.md](gangs.md).", aka: []string{"topology", "topologyKey", "scope"},
			read: func(r *reader, at place, v ast.Node, g *gang) { g.Within = r.name(at, v) }},
		{name: "preferWithin", form: "`node`, or a label or attribute", preset: "anywhere", meaning: "The same where there is room for all tasks so; else the gang does without. Both go together: within a zone, and best within a rack.",
			read: func(r *reader, at place, v ast.Node, g *gang) { g.PreferWithin = r.name(at, v) }},
		{name: "whenBroken", form: "map", preset: "`{then: release, after: 5m}`", meaning: "What becomes of the members that are left when the gang has lost so many that it has fewer than `min`.", aka: []string{"onBroken", "broken"},
			read: func(r *reader, at place, v ast.Node, g *gang) {
				g.WhenBroken = &ohmv1.WhenBroken{}
				readMap(r, at, v, whenBrokenFields(), g.WhenBroken)
			}},
	}
}

func stopFields() []field[ohmv1.StopPolicy] {
	type stop = ohmv1.StopPolicy
	return []field[stop]{
		{name: "signal", form: strings.Join(Signals(), " \\| "), preset: "`SIGTERM`", meaning: "The signal that asks a task to stop.",
			read: func(r *reader, at place, v ast.Node, s *stop) { s.Signal = r.name(at, v) }},
		{name: "grace", form: "duration", preset: "`30s`", meaning: "The time from that signal to SIGKILL.", aka: []string{"timeout"},
			read: func(r *reader, at place, v ast.Node, s *stop) { s.Grace = r.duration(at, v) }},
		{name: "replace", form: strings.Join(replaceAnswers(), " \\| "), preset: "service: `atOnce`, others: `afterExit`",
			meaning: "When the next attempt of a task may start that a drain takes off its node: when it has exited, or as soon as it was asked to, so that for a moment there are two. A task of an older version, and one of a system job, has always exited before.",
			read:    func(r *reader, at place, v ast.Node, s *stop) { s.Replace = r.name(at, v) }},
	}
}

func whenSilentFields() []field[ohmv1.WhenSilent] {
	type silent = ohmv1.WhenSilent
	return []field[silent]{
		{name: "then", form: strings.Join(silentAnswers(), " \\| "), preset: "`replace`; system: `keep`",
			meaning: "`replace`: it is given up after a while, and another attempt starts elsewhere. `keep`: it is left alone for a long time, and only then given up and replaced. `never`: it is given up after a while and has failed, whatever `retries` there are; only for batch and ml.",
			read:    func(r *reader, at place, v ast.Node, w *silent) { w.Then = r.name(at, v) }},
		{name: "after", form: "duration, 1 s and more", preset: "as the cell has it: `40s`, with `keep` `24h`", meaning: "How long the node must have been silent for the task to be given up.", aka: []string{"timeout", "lostAfter"},
			read: func(r *reader, at place, v ast.Node, w *silent) { w.After = r.duration(at, v) }},
	}
}

func groupFields() []field[ohmv1.Group] {
	type group = ohmv1.Group
	return slices.Concat([]field[group]{
		{name: "name", form: "name", preset: "required", meaning: "The group's name, unique in its job.",
			read: func(r *reader, at place, v ast.Node, g *group) { g.Name, _ = r.text(at, v) }},
		{name: "count", form: "number", preset: "1", meaning: "How many tasks; 0 and more.", kinds: "service, batch, ml", aka: []string{"replicas", "instances", "size"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Count = r.whole(at, v) }},
		{name: "min", form: "number", preset: "any number, or with `min` of another group and no `gang.min` the count", meaning: "Of a gang, the fewest tasks of this group that it starts and goes on with.", kinds: "ml", aka: []string{"minCount", "minReplicas"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Min = proto.Int32(r.whole(at, v)) }},
		{name: "command", form: "list of text", preset: "the image's; required without one", meaning: "The program and its arguments. No shell reads it, and no entrypoint of an image comes before it.", aka: []string{"cmd", "args", "exec", "run"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Command = r.texts(at, v) }},
		{name: "env", form: "map of text", preset: "none", meaning: "Environment variables. Numbers and booleans become text as they are written. `{{endpoints JOB PORT}}` in a value becomes the addresses of that job's tasks: see [services.md](services.md).", aka: []string{"environment"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Env = r.textMap(at, v) }},
		{name: "cpu", form: "cores: `500m`, `0.5`, `4`", preset: "required", meaning: "CPU of each task.", aka: []string{"cores"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Resources.CpuMilli = r.cpu(at, v) }},
		{name: "memory", form: "bytes: `512Mi`, `1.5Gi`, `2G`", preset: "required", meaning: "Memory of each task. `0` asks for none.", aka: []string{"ram"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Resources.MemoryBytes = r.bytes(at, v) }},
		{name: "disk", form: "bytes", preset: "0", meaning: "Disk space of each task: what it may write to its scratch folder and over its images. One that takes more is ended as DiskExceeded.", aka: []string{"storage"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Resources.DiskBytes = r.bytes(at, v) }},
		{name: "gpus", form: "map", preset: "none", meaning: "GPUs of each task: see [devices.md](devices.md).",
			read: func(r *reader, at place, v ast.Node, g *group) {
				g.Gpus = &ohmv1.GPURequest{Count: 1}
				readMap(r, at, v, gpuFields(), g.Gpus)
			}},
		{name: "deviceNodes", form: strings.Join(deviceNodes(), " \\| "), preset: "`last`", meaning: "When tasks without GPUs may go to nodes that have some: where no other node will do, or as if they had none.", kinds: "service, batch, ml",
			read: func(r *reader, at place, v ast.Node, g *group) { g.DeviceNodes = r.name(at, v) }},
		{name: "constraints", form: "list", preset: "none", meaning: "Conditions on the labels and attributes of a node; all must hold.",
			read: func(r *reader, at place, v ast.Node, g *group) {
				for i, item := range r.list(at, v) {
					c := &ohmv1.Constraint{}
					readMap(r, at.item(i), item, constraintFields(), c)
					g.Constraints = append(g.Constraints, c)
				}
			}},
	}, groupRuleFields(), groupBoxFields(), []field[group]{
		{name: "ports", form: "map of numbers", preset: "none", meaning: "Ports of the node that each task owns, by name: 1 to 65535, or 0 for any one that the node has free. A task finds them in `OHM_PORT_<NAME>`. Those of an ml job have one more, `master`, to meet at.", aka: []string{"port"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Ports = r.ports(at, v) }},
		{name: "network", form: strings.Join(networks(), " \\| "), preset: "`host`", meaning: "The network that each task is in: its node's, or one of its own, with nothing in it but the task, which is reached at its `ports`.", aka: []string{"networkMode", "net"},
			read: func(r *reader, at place, v ast.Node, g *group) { g.Network = r.name(at, v) }},
		{name: "health", form: "map", preset: "none", meaning: "How to find out whether a task is ready and whether it still works.", aka: []string{"healthcheck", "checks", "probes"},
			read: func(r *reader, at place, v ast.Node, g *group) {
				g.Health = &ohmv1.Health{}
				readMap(r, at, v, healthFields(), g.Health)
			}},
		later[group]("restart"),
	})
}

func gpuFields() []field[ohmv1.GPURequest] {
	type gpus = ohmv1.GPURequest
	return []field[gpus]{
		{name: "count", form: "number", preset: "1", meaning: "How many GPUs of one node.",
			read: func(r *reader, at place, v ast.Node, g *gpus) { g.Count = r.whole(at, v) }},
		{name: "models", form: "list of text", preset: "any", meaning: "The models that will do.",
			read: func(r *reader, at place, v ast.Node, g *gpus) {
				if g.Models = r.texts(at, v); len(g.Models) == 0 && !r.bad[at.path] {
					r.fault(at, "gpus.models is empty; leave it out for any model")
				}
			}},
		{name: "sameModel", form: "true, false", preset: "false", meaning: "All GPUs of a task are of one model, whichever that is. Else they may be of several.",
			read: func(r *reader, at place, v ast.Node, g *gpus) { g.SameModel = r.truth(at, v) }},
		{name: "memory", form: "bytes: `16Gi`", preset: "any", meaning: "Memory that each GPU has at least.", aka: []string{"vram"},
			read: func(r *reader, at place, v ast.Node, g *gpus) { g.MemoryBytes = r.bytes(at, v) }},
		{name: "share", form: "`1m` to `1000m`, or bytes: `10Gi`", preset: "whole GPUs", meaning: "A part of one GPU, in thousandths or as so much of its memory; only with count 1.",
			read: func(r *reader, at place, v ast.Node, g *gpus) { r.share(at, v, g) }},
	}
}

func constraintFields() []field[ohmv1.Constraint] {
	type constraint = ohmv1.Constraint
	list := func(op ohmv1.Operator) func(*reader, place, ast.Node, *constraint) {
		return func(r *reader, at place, v ast.Node, c *constraint) {
			if r.firstOperator(at, c, op) {
				c.Values = r.texts(at, v)
			}
		}
	}
	one := func(op ohmv1.Operator) func(*reader, place, ast.Node, *constraint) {
		return func(r *reader, at place, v ast.Node, c *constraint) {
			if r.firstOperator(at, c, op) {
				c.Values = []string{r.name(at, v)}
			}
		}
	}
	flag := func(op ohmv1.Operator, other string) func(*reader, place, ast.Node, *constraint) {
		return func(r *reader, at place, v ast.Node, c *constraint) {
			if r.firstOperator(at, c, op) {
				r.mustBeTrue(at, v, other)
			}
		}
	}
	return []field[constraint]{
		{name: "key", form: "text", preset: "required", meaning: "The label or attribute.", aka: []string{"label", "attribute"},
			read: func(r *reader, at place, v ast.Node, c *constraint) { c.Key = r.name(at, v) }},
		{name: "in", form: "list of text", meaning: "The node has it, with one of these values.", read: list(ohmv1.Operator_OPERATOR_IN)},
		{name: "notIn", form: "list of text", meaning: "The node has it with none of these values, or not at all.", read: list(ohmv1.Operator_OPERATOR_NOT_IN)},
		{name: "exists", form: "true", meaning: "The node has it.", read: flag(ohmv1.Operator_OPERATOR_EXISTS, "absent")},
		{name: "absent", form: "true", meaning: "The node does not have it.", read: flag(ohmv1.Operator_OPERATOR_ABSENT, "exists")},
		{name: "lt", form: "number", meaning: "The node has it, and it is a number less than this one.", aka: []string{"<", "lessThan", "below"}, read: one(ohmv1.Operator_OPERATOR_LT)},
		{name: "gt", form: "number", meaning: "The node has it, and it is a number more than this one.", aka: []string{">", "greaterThan", "above"}, read: one(ohmv1.Operator_OPERATOR_GT)},
		{name: "version", form: "bounds: `>= 1.2, < 2`", meaning: "The node has it, and it is a version within all of the bounds, each after one of `=`, `!=`, `<`, `<=`, `>`, `>=`. Numbers are compared one by one; a pre-release (`-rc.1`) comes before its version, any other suffix is ignored.", aka: []string{"semver"}, read: one(ohmv1.Operator_OPERATOR_VERSION)},
		{name: "always", form: "true, false", preset: "false", meaning: "The condition must hold while the task runs, not only when it is placed: when the node's labels change so that it no longer does, the task is stopped and, when it has exited, placed again as after a drain: that is no failure of the task.", aka: []string{"whileRunning"},
			read: func(r *reader, at place, v ast.Node, c *constraint) { c.Always = r.truth(at, v) }},
	}
}

// allows reports whether a field for these kinds ("": all) goes with a kind.
func allows(kinds, kind string) bool {
	return kinds == "" || slices.Contains(strings.Split(kinds, ", "), kind)
}
