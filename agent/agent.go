// Package agent makes the cell's placements true on one node.
//
// It holds one session with a server, which tells it the assignments of its node, and
// works by level: it compares what is desired with what its driver sees on the machine,
// does one step for each task that is not as it should be, reports, and looks again.
// What to do is decided by pure functions (decide, admit); one loop acts.
//
// What must hold:
//
//	A1  nothing is started or stopped before the server has said, to this process, what
//	    is desired
//	A2  an attempt runs once: what has run is never started again, whatever was lost
//	A3  a task starts only where it fits beside everything that is alive on the node,
//	    stopping processes included
//	A4  what is alive and not desired is ended
//	A5  an end is written down before it is reported, and reported on every session until
//	    the server has released the task
//	A6  the agent's own end, and the server's absence, leave the tasks as they are
package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/agent/device"
	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/journal"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Config of an agent. Durations and counts that are zero get the default named.
type Config struct {
	Node   *ohmv1.Node // the machine's facts; driver and capabilities are added
	Driver driver.Driver
	// Devices finds the node's GPUs while the agent runs; nil: they are those of Node.
	Devices device.Source
	Codes   device.Policy            // what their faults mean
	Conn    grpc.ClientConnInterface // to a server; see DialOptions
	Dir     string                   // existing folder of the journal; empty: none is kept
	Log     *zap.Logger              // none: silence
	// PortBusy says whether somebody has a port of the machine; nil: nobody looks.
	PortBusy func(port int32) bool

	Heartbeat   time.Duration // until the server asks for another one; 10 s
	Answer      time.Duration // for the server to say what is desired, then another session is tried; 30 s
	Backoff     time.Duration // longest pause between two sessions; 5 s
	Batch       time.Duration // that a report may wait for others; 20 ms
	Pace        time.Duration // between two messages of reports; a quarter where a task has ended; 1 s
	Repeat      time.Duration // until an end that was not released is reported again; 30 s
	Resync      time.Duration // between two looks at the whole machine; 5 s
	StepTimeout time.Duration // of one step of one task, but a start; 3 min
	StartFor    time.Duration // that a start may be tried again where that helps, as while a registry is down; 2 min
	LookTimeout time.Duration // of one look at the machine; 10 s
	Steps       int           // at the same time; 16
	LogPushes   int           // at the same time; 64
	Execs       int           // programs run in tasks by request, at the same time; 32
	Sample      time.Duration // between two looks at what running tasks use; 10 s
	Samples     int           // of each task, that are kept; 60
	LogPoll     time.Duration // between two looks for more of a log that is followed; 200 ms
	DeviceEvery time.Duration // between two looks at the devices; 10 s
	DeviceWait  time.Duration // that a task waits for a device that is not ready; 3 min
	KeepLogs    int           // of so many ended tasks; 100
	KeepLogsFor time.Duration // and no longer than this; 24 h
	// KeepLogsBytes is what they may take together; the newest are kept, one at least. 10 GiB
	KeepLogsBytes int64
	KeepLogsMin   time.Duration // and for so long even if the disk is full; 10 min
	KeepExpired   int           // of so many more it is known when their logs were removed; 1000

	DiskPath string        // of which the disk is watched; empty: it is not
	DiskFull int           // percent taken from which on the node takes no new task; 95
	DiskFree int           // percent taken below which it does again; 90
	DiskLook time.Duration // between two looks; 10 s
}

func (c *Config) fill() {
	for d, otherwise := range map[*time.Duration]time.Duration{
		&c.Heartbeat: 10 * time.Second, &c.Answer: 30 * time.Second, &c.Backoff: 5 * time.Second,
		&c.Batch: 20 * time.Millisecond, &c.Pace: time.Second, &c.Repeat: 30 * time.Second, &c.Resync: 5 * time.Second,
		&c.StepTimeout: 3 * time.Minute, &c.StartFor: 2 * time.Minute, &c.LookTimeout: 10 * time.Second, &c.Sample: 10 * time.Second,
		&c.LogPoll: 200 * time.Millisecond, &c.KeepLogsFor: 24 * time.Hour, &c.KeepLogsMin: 10 * time.Minute, &c.DiskLook: 10 * time.Second,
		&c.DeviceEvery: 10 * time.Second, &c.DeviceWait: 3 * time.Minute,
	} {
		if *d <= 0 {
			*d = otherwise
		}
	}
	for n, otherwise := range map[*int]int{&c.Steps: 16, &c.LogPushes: 64, &c.Execs: 32, &c.Samples: 60, &c.KeepLogs: 100, &c.KeepExpired: 1000, &c.DiskFull: 95, &c.DiskFree: 90} {
		if *n <= 0 {
			*n = otherwise
		}
	}
	if c.KeepLogsBytes <= 0 {
		c.KeepLogsBytes = 10 << 30
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	node := proto.CloneOf(c.Node)
	node.Driver, node.Capabilities = c.Driver.Name(), c.Driver.Capabilities()
	node.Attributes = maps.Clone(node.Attributes)
	if node.Attributes == nil {
		node.Attributes = map[string]string{}
	}
	node.Attributes["driver"] = node.Driver
	c.Node = node
	c.Log = c.Log.With(zap.String("node", node.GetName()))
}

// Agent of one node.
type Agent struct {
	Config
	nodes    ohmv1.NodesClient
	inbox    chan *ohmv1.ServerMessage // from the session to the loop, in order
	outbox   *outbox
	acted    atomic.Int64                            // the last revision that the loop took over
	running  atomic.Int64                            // tasks alive on the node
	facts    atomic.Pointer[ohmv1.Node]              // of the machine now; never written to
	changed  chan struct{}                           // rings when facts are other ones; holds one
	edits    atomic.Pointer[map[string]device.Edits] // of each device that was found last
	bell     chan struct{}                           // rings when there are hints; holds one
	usage    usage
	factsMu  sync.Mutex              // held by whoever makes new facts of the present ones
	usageOut chan *ohmv1.UsageReport // from the loop to the session

	mu    sync.Mutex
	hints map[string]bool // tasks whose observation may have changed
}

// New makes an agent; Run does its work.
func New(c Config) *Agent {
	c.fill()
	a := &Agent{
		Config:   c,
		nodes:    ohmv1.NewNodesClient(c.Conn),
		inbox:    make(chan *ohmv1.ServerMessage),
		outbox:   newOutbox(),
		bell:     make(chan struct{}, 1),
		changed:  make(chan struct{}, 1),
		hints:    map[string]bool{},
		usageOut: make(chan *ohmv1.UsageReport),
	}
	a.facts.Store(c.Node)
	return a
}

// Running is how many tasks were alive on the node when the agent last looked.
func (a *Agent) Running() int { return int(a.running.Load()) }

// Run works until ctx ends, and then returns nil and leaves the tasks as they are (A6).
// An error says that the agent could not begin.
func (a *Agent) Run(ctx context.Context) error {
	var book *journal.Journal
	if a.Dir != "" {
		var err error
		if book, err = journal.Open(filepath.Join(a.Dir, "journal"), a.Log); err != nil {
			return err
		}
	}
	l := newLoop(a, book)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		found := a.findDevices(ctx)
		g.Go(func() error { return found(ctx) })
		return a.sessions(ctx)
	})
	g.Go(func() error { return a.watch(ctx) })
	g.Go(func() error { return a.sampling(ctx) })
	g.Go(func() error { return a.watchDisk(ctx) })
	g.Go(func() error { return l.run(ctx) })
	err := g.Wait()
	if book != nil {
		err = errors.Join(err, book.Close())
	}
	return err
}

// watch passes the driver's hints on.
func (a *Agent) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		err := a.Driver.Watch(ctx, a.hint)
		if ctx.Err() == nil {
			a.Log.Warn("the driver's watch ended", zap.Error(err))
			pause(ctx, time.Second)
		}
	}
	return nil
}

func (a *Agent) hint(id string) {
	a.mu.Lock()
	a.hints[id] = true
	a.mu.Unlock()
	ring(a.bell)
}

func (a *Agent) takeHints() map[string]bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.hints) == 0 {
		return nil
	}
	taken := a.hints
	a.hints = map[string]bool{}
	return taken
}

// ring wakes whoever waits on a bell that holds one.
func ring(bell chan<- struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// jitter is a duration between that part of d and d, so that many agents do not do the
// same thing at the same time.
func jitter(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * (part + (1-part)*mathrand.Float64()))
}

// backoff is the pause after so many failures in a row (from 1): it doubles up to a limit.
func backoff(first, limit time.Duration, failures int) time.Duration {
	return min(limit, time.Duration(float64(first)*math.Pow(2, float64(min(failures, 30)-1))))
}

// newSession names a session.
func newSession() string { return rand.Text() }
