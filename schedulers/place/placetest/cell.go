package placetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Input reads a cell: its snapshot, and as work all that reconcile says is needed, by
// precedence and then in the order of the text.
func Input(t TB, text string) schedulers.Input {
	t.Helper()
	r := &reader{t: t, jobs: map[string]*ohmv1.Job{}}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 {
			r.line(words)
		}
	}
	s, err := cellstate.NewSnapshot(1, r.records, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.in.Snapshot = s
	r.in.Work = Work(s, r.order...)
	return r.in
}

// Work is all that reconcile says those of the named jobs need that there are, by precedence and then in the
// order of the names.
func Work(s *cellstate.Snapshot, jobs ...string) (work []schedulers.Work) {
	for _, name := range jobs {
		job := s.Job(cellstate.JobName{Namespace: "default", Name: name})
		if job == nil {
			continue
		}
		if needs := reconcile.Job(s, job, now()).Needs; len(needs) > 0 {
			work = append(work, schedulers.Work{Job: job, Needs: needs})
		}
	}
	slices.SortStableFunc(work, func(a, b schedulers.Work) int {
		return int(b.Job.Record.GetSpec().GetPrecedence()) - int(a.Job.Record.GetSpec().GetPrecedence())
	})
	return work
}

// now is when all decisions are made.
func now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

type reader struct {
	t       TB
	in      schedulers.Input
	records []cellstate.Change
	jobs    map[string]*ohmv1.Job
	order   []string // of jobs
	job     *ohmv1.Job
}

func (r *reader) line(words []string) {
	name, set := words[1], settings{}
	for _, w := range words[2:] {
		k, v, _ := strings.Cut(w, "=")
		set[k] = v
	}
	switch words[0] {
	case "node":
		r.node(name, set)
	case "hold":
		r.put(cellstate.HoldKey(cellstate.NodeName(name), "held"), &ohmv1.Hold{
			Node: name, Txn: "held", Precedence: r.number(set["precedence"]), Resources: r.resources(set), Gpus: devices(r, set["gpus"]),
		})
	case "job":
		kind := set["kind"]
		r.job = &ohmv1.Job{Version: 1, Spec: &ohmv1.JobSpec{
			Namespace: "default", Name: name, Kind: kind, Scheduler: kind, Precedence: proto.Int32(r.number(set["precedence"])),
		}}
		if app := set["app"]; app != "" {
			r.job.Spec.Labels = map[string]string{"app": app}
		}
		if kind == "ml" {
			r.job.Spec.Gang = &ohmv1.Gang{Min: r.number(set["min"]), Within: set["within"], PreferWithin: set["prefer"]}
		}
		r.jobs[name] = r.job
		r.order = append(r.order, name)
		r.put(cellstate.JobKey(cellstate.JobName{Namespace: "default", Name: name}), r.job)
	case "group":
		r.job.Spec.Groups = append(r.job.Spec.Groups, r.group(name, set))
	case "live":
		p := strings.Split(name, "/") // job/group/index node
		slot := cellstate.Slot{Namespace: "default", Job: p[0], Group: p[1], Index: int(r.number(p[2])), Version: 1}
		groups := r.jobs[p[0]].GetSpec().GetGroups()
		g := groups[slices.IndexFunc(groups, func(g *ohmv1.Group) bool { return g.GetName() == p[1] })]
		r.put(slot.PlacementKey(), &ohmv1.Placement{
			Slot: slot.Proto(), Attempt: 1, Node: words[2], Resources: g.GetResources(), Gpus: devices(r, set["gpus"]), Txn: name,
			Precedence: r.jobs[p[0]].GetSpec().GetPrecedence(), Ports: r.owned(g, set["ports"]), Time: timestamppb.New(now().Add(-r.duration(set["ran"]))),
		})
	case "evict":
		r.in.Now = now()
		r.in.Evictions = schedulers.Evictions{Most: int(r.number(name)), Now: now(), MinRun: r.duration(set["after"]), PerTask: int(r.number(set["pertask"]))}
	case "home":
		index, of, _ := strings.Cut(name, "/")
		r.in.Home = schedulers.Home{Index: int(r.number(index)), Of: int(r.number(of))}
	case "limit":
		r.in.Limits.Claims, r.in.Limits.Nodes = int(r.number(name)), int(r.number(set["nodes"]))
	case "seed":
		r.in.Seed = uint64(r.number(name))
	default:
		r.t.Fatalf("unknown verb %q", words[0])
	}
}

func (r *reader) node(name string, set settings) {
	n := &ohmv1.Node{Name: name, Capacity: r.resources(set), Attributes: map[string]string{}}
	for i, model := range strings.FieldsFunc(set["gpus"], func(c rune) bool { return c == ',' }) {
		d := &ohmv1.Device{Id: strconv.Itoa(i)}
		d.Model, model, _ = strings.Cut(model, "@")
		if model != "" {
			d.MemoryBytes = r.bytes(model)
		}
		n.Gpus = append(n.Gpus, d)
	}
	key := cellstate.NodeName(name)
	intent := &ohmv1.Intent{Node: name}
	alive := true
	for _, k := range slices.Sorted(maps.Keys(set)) {
		switch k {
		case "cpu", "memory", "disk", "gpus":
		case "can":
			n.Capabilities = strings.Split(set[k], ",")
		case "driver":
			n.Driver = set[k]
		case "ports":
			first, last, _ := strings.Cut(set[k], "-")
			n.DynamicPorts = &ohmv1.PortRange{First: r.number(first), Last: r.number(last)}
		case "dead":
			alive = false
		case "drain":
			intent.Drain = true
		case "ineligible":
			intent.Ineligible = true
		default:
			n.Attributes[k] = set[k]
		}
	}
	r.put(cellstate.NodeKey(key), n)
	r.put(cellstate.IntentKey(key), intent)
	if alive {
		r.put(cellstate.AliveKey(key), &ohmv1.Alive{Node: name})
	}
}

func (r *reader) group(name string, set settings) *ohmv1.Group {
	g := &ohmv1.Group{Name: name, Count: r.number(set["count"]), Resources: r.resources(set)}
	if set["gpus"] != "" {
		g.Gpus = &ohmv1.GPURequest{Count: r.number(set["gpus"])}
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		v := set[k]
		switch k {
		case "share":
			milli, err := resource.ParseShare(v)
			r.check(err)
			g.Gpus.ShareMilli = milli
		case "min":
			g.Min = proto.Int32(r.number(v))
		case "samemodel":
			g.Gpus.SameModel = true
		case "gpumemory":
			g.Gpus.MemoryBytes = r.bytes(v)
		case "sharebytes":
			g.Gpus.ShareBytes = r.bytes(v)
		case "devices":
			g.DeviceNodes = v
		case "models":
			g.Gpus.Models = strings.Split(v, "|")
		case "in":
			key, values, _ := strings.Cut(v, ":")
			g.Constraints = append(g.Constraints, &ohmv1.Constraint{Key: key, Op: ohmv1.Operator_OPERATOR_IN, Values: strings.Split(values, ",")})
		case "distinct":
			g.Distinct = v
		case "apart", "near": // job=x or key:value or group or nothing, @label, ? for a preferred one
			a := affinity(v)
			if k == "near" {
				g.Affinity = append(g.Affinity, a)
			} else {
				g.AntiAffinity = append(g.AntiAffinity, a)
			}
		case "spread": // label, /skew, ? for a preferred one
			over, skew, _ := strings.Cut(strings.TrimSuffix(v, "?"), "/")
			g.Spread = &ohmv1.Spread{Over: over, MaxSkew: 1, Required: !strings.HasSuffix(v, "?")}
			if skew != "" {
				g.Spread.MaxSkew = r.number(skew)
			}
		case "ports": // numbers, 0 for a dynamic one
			for i, number := range strings.Split(v, ",") {
				g.Ports = append(g.Ports, &ohmv1.Port{Name: fmt.Sprint("p", i), Number: r.number(number)})
			}
		case "image":
			g.Box = &ohmv1.Box{Image: v}
		case "exists":
			g.Constraints = append(g.Constraints, &ohmv1.Constraint{Key: v, Op: ohmv1.Operator_OPERATOR_EXISTS})
		}
	}
	return g
}

// affinity reads job:web@zone, group:ps@rack, app:db@node?, @rack: what it is about, and within what.
func affinity(text string) *ohmv1.Affinity {
	to, within, _ := strings.Cut(strings.TrimSuffix(text, "?"), "@")
	a := &ohmv1.Affinity{To: &ohmv1.Selector{}, Within: within, Required: !strings.HasSuffix(text, "?")}
	switch key, value, _ := strings.Cut(to, ":"); key {
	case "":
	case "job":
		a.To.Job = value
	case "group":
		a.To.Group = value
	default:
		a.To.Labels = map[string]string{key: value}
	}
	return a
}

// settings are the words key=value of a line.
type settings map[string]string

func (r *reader) resources(set settings) *ohmv1.Resources {
	res := &ohmv1.Resources{}
	var err error
	if v := set["cpu"]; v != "" {
		res.CpuMilli, err = resource.ParseCPU(v)
		r.check(err)
	}
	if v := set["memory"]; v != "" {
		res.MemoryBytes, err = resource.ParseBytes(v)
		r.check(err)
	}
	if v := set["disk"]; v != "" {
		res.DiskBytes, err = resource.ParseBytes(v)
		r.check(err)
	}
	return res
}

// devices reads 0:500,1:500.
func devices(r *reader, text string) (gpus []*ohmv1.DeviceShare) {
	for _, d := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' }) {
		id, milli, _ := strings.Cut(d, ":")
		gpus = append(gpus, &ohmv1.DeviceShare{Id: id, Milli: r.number(milli)})
	}
	return gpus
}

// owned are the ports of a group with the numbers that a task of it has.
func (r *reader) owned(g *ohmv1.Group, numbers string) (ports []*ohmv1.Port) {
	for i, number := range strings.FieldsFunc(numbers, func(c rune) bool { return c == ',' }) {
		ports = append(ports, &ohmv1.Port{Name: g.GetPorts()[i].GetName(), Number: r.number(number)})
	}
	return ports
}

// duration reads 90s; nothing is none.
func (r *reader) duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	r.check(err)
	return d
}

func (r *reader) put(key cellstate.Key, value proto.Message) {
	r.records = append(r.records, cellstate.Change{Key: key, Value: value, Revision: 1})
}

// number reads a number; nothing is 0.
func (r *reader) bytes(s string) int64 {
	n, err := resource.ParseBytes(s)
	r.check(err)
	return n
}

func (r *reader) number(s string) int32 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 32)
	r.check(err)
	return int32(n)
}

func (r *reader) check(err error) {
	if err != nil {
		r.t.Fatal(fmt.Errorf("scenario: %w", err))
	}
}
