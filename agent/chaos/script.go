package chaos

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// kind of task: what its script does, and how its attempts may end.
type kind struct {
	name    string
	weight  int // how many of a hundred tasks are of it
	service bool
	apart   bool // in a network of its own, with a port
	retries int
	memory  int64 // 0: the usual
	script  string
	staged  bool // has other containers before the one of the script
	// ends are the causes of the attempts, in order, of a task that nobody stops.
	ends func(seconds int) []string
}

// prelude begins every script.
const prelude = `b=/bin/busybox; a=$OHM_ATTEMPT; `

func times(n int, cause, last string) []string {
	return append(slices.Repeat([]string{cause}, n), last)
}

// kinds of tasks. $SECONDS_ is how long one takes.
func kinds() []kind {
	once := func(int) []string { return []string{"exited 0"} }
	never := func(int) []string { return nil }
	return []kind{
		{name: "short", weight: 18, script: `$b sleep 0.$SECONDS_; exit 0`, ends: once},
		{name: "long", weight: 12, script: `n=0; while [ $n -lt $SECONDS_ ]; do $b sleep 1; n=$((n+1)); done; exit 0`, ends: once},
		{name: "again", weight: 12, retries: 3,
			script: `$b sleep 0.3; [ $a -gt 2 ] || exit 3; exit 0`,
			ends:   func(int) []string { return times(2, "exited 3", "exited 0") }},
		{name: "killer", weight: 6, retries: 1, script: `[ $a -gt 1 ] || kill -9 $$; exit 0`,
			ends: func(int) []string { return []string{"signal 9", "exited 0"} }},
		{name: "eater", weight: 4, retries: 1, memory: 48 << 20, script: `[ $a -gt 1 ] || exec $b tail /dev/zero; exit 0`,
			ends: func(int) []string { return []string{"OOMKilled", "exited 0"} }},
		// Its children are still there when it ends, one of them in a session of its own.
		{name: "parent", weight: 12, script: `$b sleep 1000 & $b setsid $b sh -c '/bin/busybox sleep 1000 & /bin/busybox sleep 1001 &' & $b sleep $SECONDS_; exit 0`, ends: once},
		{name: "deaf", weight: 12, service: true, script: `trap '' TERM; $b sh -c 'trap "" TERM; while :; do /bin/busybox sleep 1; done' & while :; do $b sleep 1; done`, ends: never},
		{name: "apart", weight: 10, service: true, apart: true, script: `exec $b nc -ll -p $OHM_PORT_HTTP -e $b true`, ends: never},
		// What its first container has left must be there, once.
		{name: "staged", weight: 8, staged: true, script: `[ -e $HOME/first ] || exit 9; $b sleep $SECONDS_; exit 0`, ends: once},
		{name: "server", weight: 6, service: true, script: `($b sleep 10000 &); exec $b sleep 10000`, ends: never},
	}
}

// job is one job of the run.
type job struct {
	kind    kind
	name    string
	count   int
	seconds int
	driver  string  // of the nodes that it is for: else all would be packed onto one
	at      float64 // the part of the run's time after which it is submitted
	stopAt  float64 // after which it is stopped; 0: at the end

	stopped bool
}

// plan makes jobs with so many tasks together, in the order of their submission.
func plan(r *random, tasks int) (jobs []*job) {
	all := kinds()
	for n := 0; n < tasks; {
		pick, k := r.IntN(100), 0
		for ; k < len(all)-1 && pick >= all[k].weight; k++ {
			pick -= all[k].weight
		}
		j := &job{kind: all[k], count: min(1+r.IntN(5), tasks-n), seconds: 1 + r.IntN(9), driver: []string{"native", "containerd"}[r.IntN(2)], at: r.Float64() * 0.85}
		j.name = fmt.Sprintf("%s-%d", j.kind.name, len(jobs))
		if j.kind.name == "long" {
			j.seconds = 5 + r.IntN(30)
		}
		if j.kind.service && r.IntN(2) == 0 {
			j.stopAt = j.at + (1-j.at)*r.Float64()
		}
		jobs = append(jobs, j)
		n += j.count
	}
	slices.SortFunc(jobs, func(a, b *job) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return jobs
}

// spec is the job as it is submitted.
func (j *job) spec(notes string) *ohmv1.JobSpec {
	s := &ohmv1.JobSpec{
		Name: j.name, Kind: "batch", Scheduler: "batch", Retries: int32(j.kind.retries),
		Stop: &ohmv1.StopPolicy{Signal: "SIGTERM", Grace: durationpb.New(time.Second)},
		Groups: []*ohmv1.Group{{
			Name: "main", Count: int32(j.count), Command: []string{filepath.Join(notes, holdVerb), holdVerb, notes, prelude + j.kind.script},
			Constraints: []*ohmv1.Constraint{{Key: "driver", Op: ohmv1.Operator_OPERATOR_IN, Values: []string{j.driver}}},
			Env:         map[string]string{"SECONDS_": fmt.Sprint(j.seconds), markEnv: notes},
			Resources:   &ohmv1.Resources{CpuMilli: 10, MemoryBytes: cmp.Or(j.kind.memory, 64<<20)},
		}},
	}
	if j.kind.staged {
		g := s.Groups[0]
		script := func(text string) []string { return []string{"/bin/busybox", "sh", "-c", prelude + text} }
		g.Containers = []*ohmv1.Container{
			{Name: "first", Role: "init", Command: script(`[ ! -e $HOME/first ] || exit 8; echo >$HOME/first; $b sleep 0.$SECONDS_`)},
			{Name: "beside", Role: "sidecar", Command: script(`$b setsid $b sleep 1000 & $b sleep 1000`)},
			{Name: "main", Role: "main", Command: g.Command},
		}
		g.Command = nil
	}
	if j.kind.apart {
		s.Groups[0].Network, s.Groups[0].Ports = "own", []*ohmv1.Port{{Name: "http"}}
	}
	if j.kind.service {
		s.Kind, s.Scheduler = "service", "service"
	}
	return s
}

// markEnv is in the environment of every process of every task.
const markEnv = "CHAOS_MARK"
