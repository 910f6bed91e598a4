package agent

import (
	"context"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/health"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// probes is how many probes are under way at the same time on a node.
const probes = 32

// watched is a task that is being probed.
type watched struct {
	end     context.CancelFunc
	verdict atomic.Pointer[health.Verdict]
}

// probe sees to it that a task which is to be probed is, and no other. What the probes find
// out comes back through a hint, and stands in the next situation.
func (l *loop) probe(ctx context.Context, e *entry) {
	checks := e.desired.GetHealth()
	wanted := checks != nil && e.alive() && e.seen.State == task.Running && e.memo.StopAsked.IsZero() && e.memo.End == nil
	switch {
	case wanted && e.watched == nil:
		ctx, end := context.WithCancel(ctx)
		w := &watched{end: end}
		first := health.Verdict{Ready: e.memo.Ready}
		w.verdict.Store(&first)
		e.watched = w
		id, started := e.id, e.seen.Started
		ready, live := l.check(e, checks.GetReady()), l.check(e, checks.GetLive())
		l.watching.Go(func() {
			health.Watch(ctx, first, started, ready, live, l.probes, func(v health.Verdict) {
				w.verdict.Store(&v)
				l.hint(id)
			})
		})
	case !wanted && e.watched != nil:
		e.watched.end()
		e.watched = nil
	}
}

// healthy is what the probes have found out about a task; without probes, or before their
// first answer, what is remembered.
func (e *entry) healthy() health.Verdict {
	if e.watched == nil {
		return health.Verdict{Ready: e.memo.Ready}
	}
	return *e.watched.verdict.Load()
}

// What a check goes by that does not say it; the server fills this in.
const (
	defaultInterval = 10 * time.Second
	defaultTimeout  = 2 * time.Second
)

func positive(d *durationpb.Duration, otherwise time.Duration) time.Duration {
	if d.AsDuration() <= 0 {
		return otherwise
	}
	return d.AsDuration()
}

// check is a check of the job as the probes want it; nil if there is none.
func (l *loop) check(e *entry, c *ohmv1.Check) *health.Check {
	if c == nil {
		return nil
	}
	port := func(name string) int32 {
		ports := e.desired.GetPlacement().GetPorts()
		i := slices.IndexFunc(ports, func(p *ohmv1.Port) bool { return p.GetName() == name })
		if i < 0 {
			return 0 // nobody answers there; the job file has been refused for it
		}
		return ports[i].GetNumber()
	}
	id := e.id
	dial := health.Localhost
	if in, ok := l.Driver.(driver.Dialer); ok && e.desired.GetNetwork() == ownNetwork {
		dial = func(ctx context.Context, port int32) (net.Conn, error) { return in.Dial(ctx, id, port) }
	}
	out := &health.Check{Rules: health.Rules{
		StartPeriod: c.GetStartPeriod().AsDuration(), Interval: positive(c.GetInterval(), defaultInterval),
		Timeout: positive(c.GetTimeout(), defaultTimeout), Failures: int(max(1, c.GetFailures())),
	}}
	switch {
	case c.GetHttp() != nil:
		out.Probe = health.HTTP(dial, port(c.GetHttp().GetPort()), c.GetHttp().GetPath())
	case c.GetTcp() != nil:
		out.Probe = health.TCP(dial, port(c.GetTcp().GetPort()))
	default:
		out.Probe = health.Exec(func(ctx context.Context, command []string, output io.Writer) (int, error) {
			return l.Driver.Exec(ctx, id, driver.Exec{Command: command, Stdout: output, Stderr: output})
		}, c.GetExec().GetCommand())
	}
	return out
}
