package robustness

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/agent/driver/hollow"
	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// traffic submits, changes and stops jobs so that the cell is always nearly full and each
// scheduler has something to do.
type traffic struct {
	jobs   ohmv1.JobsClient
	cell   ohmv1.CellClient
	chance *rand.Rand
	log    io.Writer
	n      int

	limited int // quotas that have been set at least once
}

// kindOf is a kind of job in the traffic.
type kindOf struct {
	scheduler, kind string
	namespace       string // of every second job; the others are in default
	precedence      int32
	gang            bool
	count           int32
	cpu             int64   // milli
	seconds         float64 // 0: until it is stopped
	most            int     // jobs at the same time
}

func kinds() []kindOf {
	return []kindOf{
		{scheduler: "batch", kind: "batch", namespace: teamName, precedence: 100, count: 6, cpu: 1000, seconds: 0.8, most: 8},
		{scheduler: "ml", kind: "ml", precedence: 100, gang: true, count: 4, cpu: 2000, seconds: 0.6, most: 3},
		{scheduler: "service", kind: "service", precedence: 200, count: 3, cpu: 500, most: 3},
		{scheduler: pressName, kind: "batch", precedence: 250, count: 2, cpu: 2000, seconds: 0.5, most: 1},
		{scheduler: slowName, kind: "batch", precedence: 100, count: 2, cpu: 1000, seconds: 0.5, most: 2},
		{scheduler: slowName, kind: "ml", precedence: 100, gang: true, count: 2, cpu: 1500, seconds: 0.5, most: 1},
	}
}

// teamName is a namespace with a quota.
const teamName = "team"

// quotas bind: more is wanted of each than its larger amount, in thousandths of a core. Two
// processes, the instances of batch, spend both.
func quotas() []quotaOf {
	return []quotaOf{
		{cellstate.NamespaceScope, teamName, [2]int64{4000, 7000}},
		{cellstate.SchedulerScope, "batch", [2]int64{10_000, 15_000}},
	}
}

type quotaOf struct {
	kind, name string
	cpu        [2]int64 // now this, now that
}

// run goes on until ctx ends. A server that is away is asked again later.
func (t *traffic) run(ctx context.Context) error {
	for pause(ctx, 100*time.Millisecond) == nil {
		asking, cancel := context.WithTimeout(ctx, 3*time.Second)
		t.step(asking)
		cancel()
	}
	return nil
}

func (t *traffic) step(ctx context.Context) {
	t.limit(ctx)
	list, err := t.jobs.List(ctx, &ohmv1.ListJobsRequest{})
	if err != nil {
		t.note(err)
		return
	}
	type open struct{ scheduler, kind string }
	jobs := map[open][]*ohmv1.JobStatus{}
	for _, j := range list.GetJobs() {
		if j.GetState() == "Pending" || j.GetState() == "Running" {
			of := open{j.GetScheduler(), j.GetKind()}
			jobs[of] = append(jobs[of], j)
		}
	}
	var submit []*ohmv1.JobSpec
	for _, k := range kinds() {
		of := open{k.scheduler, k.kind}
		if n := len(jobs[of]); n < k.most {
			t.n++
			submit = append(submit, t.spec(k, fmt.Sprintf("%s-%d", k.scheduler, t.n)))
		} else if k.seconds == 0 && t.chance.IntN(10) == 0 { // one that does not end by itself
			name := jobs[of][t.chance.IntN(n)].GetJob()
			if t.chance.IntN(2) == 0 {
				_, _ = t.jobs.Stop(ctx, &ohmv1.StopJobsRequest{Namespace: "default", Jobs: []string{name}})
				continue
			}
			submit = append(submit, t.spec(k, name)) // a new version
		}
	}
	if len(submit) > 0 {
		_, err = t.jobs.Submit(ctx, &ohmv1.SubmitRequest{RequestId: ulid.Make().String(), Jobs: submit})
	}
	t.note(err)
}

// limit sets the quotas, at first and now and then again: to the other amount, or after a
// restore to what it was.
func (t *traffic) limit(ctx context.Context) {
	for i, q := range quotas() {
		if i < t.limited && t.chance.IntN(40) > 0 {
			continue
		}
		_, err := t.cell.SetQuota(ctx, &ohmv1.SetQuotaRequest{Kind: q.kind, Name: q.name, Limit: &ohmv1.Amounts{CpuMilli: proto.Int64(q.cpu[t.chance.IntN(2)])}})
		t.note(err)
		if err == nil {
			t.limited = max(t.limited, i+1)
		}
	}
}

// note writes down what a request has met that is not the absence of a server: then there
// is a job more or less, and nothing else matters of it.
func (t *traffic) note(err error) {
	if err != nil {
		fmt.Fprintln(t.log, "traffic:", err)
	}
}

func (t *traffic) spec(k kindOf, name string) *ohmv1.JobSpec {
	namespace := "default"
	if k.namespace != "" && t.n%2 == 0 {
		namespace = k.namespace
	}
	s := &ohmv1.JobSpec{Namespace: namespace, Name: name, Kind: k.kind, Scheduler: k.scheduler, Precedence: proto.Int32(k.precedence),
		Groups: []*ohmv1.Group{{Name: "main", Count: k.count, Command: []string{"true"},
			Constraints: []*ohmv1.Constraint{{Key: "hollow", Op: ohmv1.Operator_OPERATOR_EXISTS}},
			Env:         map[string]string{"RUN": fmt.Sprint(t.chance.IntN(1000))}, Resources: &ohmv1.Resources{CpuMilli: k.cpu, MemoryBytes: 256 << 20}}}}
	if k.seconds > 0 {
		s.Retries = 3
		s.Groups[0].Env[hollow.EnvSeconds] = fmt.Sprintf("%.2f", k.seconds*(0.5+t.chance.Float64()))
	}
	if k.gang {
		s.Gang = &ohmv1.Gang{OnTimeout: "wait"}
	}
	return s
}
