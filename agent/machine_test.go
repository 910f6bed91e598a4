package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// machine is a driver and the machine below it: it outlives agents.
type machine struct {
	mu        sync.Mutex
	procs     map[string]*proc
	logs      map[string]*[2]bytes.Buffer
	written   map[string]time.Time
	listLogs  error            // of ListLogs
	logBytes  error            // of LogBytes
	disk      map[string]int64 // of DiskBytes
	rotated   int64            // so much of each stream is not there any more
	calls     []string         // that changed something, in order
	stubborn  map[string]bool  // ignores SIGTERM
	immortal  map[string]bool  // and SIGKILL, for now
	noStart   map[string]error // starts that fail
	unseen    map[string]error // tasks that cannot be observed
	badSignal map[string]error // signals that cannot be sent
	slow      time.Duration    // of each start
	slows     map[string]time.Duration
	told      map[string]driver.Task // by starts
	cut       map[string]bool        // starts that were killed
	uncut     bool                   // none can be
	starting  int                    // now
	most      int                    // at the same time
	cpu, peak int64                  // of living processes
	watches   map[int]func(string)
	watched   int
	abilities []string
	onRemove  func(id string) // called when logs are removed
	reading   chan struct{}   // not nil: logs are read when it is closed
	stats     func() driver.Stats
	exec      func(context.Context, driver.Exec) (int, error)
	quiet     bool            // no hints
	looked    func(id string) // called after each look at one task
	hangs     func(id string) // called before each look, and with "" before a list
}

type proc struct {
	driver.Observation
	task driver.Task
}

func newMachine() *machine {
	return &machine{
		procs: map[string]*proc{}, logs: map[string]*[2]bytes.Buffer{}, written: map[string]time.Time{}, stubborn: map[string]bool{},
		immortal: map[string]bool{}, noStart: map[string]error{}, unseen: map[string]error{},
		badSignal: map[string]error{}, slows: map[string]time.Duration{}, told: map[string]driver.Task{}, cut: map[string]bool{}, watches: map[int]func(string){},
	}
}

func (m *machine) Name() string           { return "fake" }
func (m *machine) Capabilities() []string { return append([]string{"pretending"}, m.abilities...) }

func (m *machine) locked(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

func (m *machine) changed(id string) {
	m.mu.Lock()
	watches := slices.Collect(maps.Values(m.watches))
	if m.quiet {
		watches = nil
	}
	m.mu.Unlock()
	for _, w := range watches {
		w(id)
	}
}

func (m *machine) Start(ctx context.Context, t driver.Task) error {
	m.mu.Lock()
	m.starting++
	m.most = max(m.most, m.starting)
	slow := m.slow
	if own, ok := m.slows[t.ID]; ok {
		slow = own
	}
	m.mu.Unlock()
	m.begin(ctx, t, slow)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.starting--
	if m.cut[t.ID] {
		why := "killed while it started"
		m.calls = append(m.calls, "start "+t.ID)
		m.procs[t.ID] = &proc{task: t, Observation: driver.Observation{
			ID: t.ID, State: task.Failed, Cause: task.StartFailed, Message: why, Ended: time.Now(),
		}}
		return errors.New(why)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.procs[t.ID] != nil {
		return nil
	}
	m.calls = append(m.calls, "start "+t.ID)
	if err := m.noStart[t.ID]; err != nil {
		return err
	}
	m.put(t)
	return nil
}

// begin waits while a start is slow; it may be cut short.
func (m *machine) begin(ctx context.Context, t driver.Task, slow time.Duration) {
	m.locked(func() { m.told[t.ID] = t })
	for end := time.Now().Add(slow); time.Now().Before(end) && ctx.Err() == nil; {
		pause(ctx, min(time.Until(end), time.Second))
		m.mu.Lock()
		cut := m.cut[t.ID]
		m.mu.Unlock()
		if cut {
			return
		}
	}
}

// put makes a living process.
func (m *machine) put(t driver.Task) {
	m.procs[t.ID] = &proc{
		Observation: driver.Observation{ID: t.ID, State: task.Running, Pid: 1000 + len(m.procs), Started: time.Now()},
		task:        t,
	}
	m.logs[t.ID] = new([2]bytes.Buffer)
	m.written[t.ID] = time.Now()
	m.cpu += t.Resources.GetCpuMilli()
	m.peak = max(m.peak, m.cpu)
}

// end lets a process end.
func (m *machine) end(id string, o driver.Observation) {
	m.mu.Lock()
	p := m.procs[id]
	if p != nil && !task.Ended(p.State) {
		o.ID, o.Pid, o.Started, o.Ended = id, p.Pid, p.Started, time.Now()
		if o.State == task.Unknown {
			o.State = task.Failed
		}
		p.Observation = o
		m.cpu -= p.task.Resources.GetCpuMilli()
	}
	m.mu.Unlock()
	m.changed(id)
}

func (m *machine) exit(id string, code int) {
	m.end(id, driver.Observation{Cause: task.Exited, ExitCode: code})
}

func (m *machine) Signal(_ context.Context, id string, sig syscall.Signal) error {
	m.mu.Lock()
	m.calls = append(m.calls, fmt.Sprintf("signal %s %d", id, sig))
	dies, err := !m.stubborn[id], m.badSignal[id]
	m.mu.Unlock()
	if dies && err == nil {
		m.end(id, driver.Observation{Cause: task.Signalled, Signal: int(sig)})
	}
	return err
}

func (m *machine) Kill(_ context.Context, id string) error {
	m.mu.Lock()
	m.calls = append(m.calls, "kill "+id)
	dies := !m.immortal[id]
	if _, told := m.told[id]; told && m.procs[id] == nil && !m.uncut {
		m.cut[id] = true
	}
	m.mu.Unlock()
	if dies {
		m.end(id, driver.Observation{Cause: task.Signalled, Signal: int(syscall.SIGKILL)})
	}
	return nil
}

func (m *machine) hang(id string) {
	m.mu.Lock()
	hangs := m.hangs
	m.mu.Unlock()
	if hangs != nil {
		hangs(id)
	}
}

func (m *machine) Observe(_ context.Context, id string) (driver.Observation, bool, error) {
	m.hang(id)
	if m.looked != nil {
		defer m.looked(id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.unseen[id]; err != nil {
		return driver.Observation{}, false, err
	}
	if p := m.procs[id]; p != nil {
		return p.Observation, true, nil
	}
	return driver.Observation{}, false, nil
}

func (m *machine) find(id string) (o driver.Observation, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.procs[id]; p != nil {
		return p.Observation, true
	}
	return o, false
}

func (m *machine) List(context.Context) (list []driver.Observation, err error) {
	m.hang("")
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, p := range m.procs {
		if m.unseen[id] == nil {
			list = append(list, p.Observation)
		}
	}
	return list, errors.Join(slices.Collect(maps.Values(m.unseen))...)
}

func (m *machine) Watch(ctx context.Context, changed func(string)) error {
	m.mu.Lock()
	m.watched++
	key := m.watched
	m.watches[key] = changed
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches, key)
	return nil
}

func (m *machine) Remove(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.procs[id]; p != nil && !task.Ended(p.State) {
		return errors.New("it runs")
	}
	delete(m.procs, id)
	m.calls = append(m.calls, "remove "+id)
	return nil
}

func (m *machine) Logs(_ context.Context, id, stream string, from driver.From) (driver.Log, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index([]string{"stdout", "stderr"}, stream)
	if m.logs[id] == nil || i < 0 {
		return nil, fs.ErrNotExist
	}
	buf := &m.logs[id][i]
	at := max(from.Offset, min(m.rotated, int64(buf.Len())))
	if from.Tail < 0 {
		at = int64(buf.Len())
	}
	return &logReader{m: m, buf: buf, at: int(at)}, nil
}

type logReader struct {
	m   *machine
	buf *bytes.Buffer
	at  int
}

func (r *logReader) Read(b []byte) (int, error) {
	r.m.mu.Lock()
	if reading := r.m.reading; reading != nil {
		r.m.mu.Unlock()
		<-reading
		r.m.mu.Lock()
	}
	defer r.m.mu.Unlock()
	r.at = max(r.at, min(int(r.m.rotated), r.buf.Len()))
	n := copy(b, r.buf.Bytes()[r.at:])
	if r.at += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *logReader) Close() error { return nil }

func (r *logReader) Offset() int64 {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	return int64(r.at)
}

func (m *machine) ListLogs(context.Context) (map[string]time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listLogs != nil {
		return nil, m.listLogs
	}
	kept := map[string]time.Time{}
	for id := range m.logs {
		kept[id] = m.written[id]
	}
	return kept, nil
}

func (m *machine) DiskBytes(_ context.Context, id string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk[id], nil
}

func (m *machine) LogBytes(_ context.Context, id string) (n int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if logs, ok := m.logs[id]; ok {
		n = int64(logs[0].Len() + logs[1].Len())
	}
	return n, m.logBytes
}

func (m *machine) RemoveLogs(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.logs, id)
	if m.onRemove != nil {
		m.onRemove(id)
	}
	m.calls = append(m.calls, "remove-logs "+id)
	return nil
}

func (m *machine) write(id, stream, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logs[id][slices.Index([]string{"stdout", "stderr"}, stream)].WriteString(text)
}

// peaks are the most thousandths of a core in use, and the most starts, at the same time.
func (m *machine) peaks() (cpu int64, starts int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peak, m.most
}

// hasLogs says whether a task's logs are there.
func (m *machine) hasLogs(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.logs[id] != nil
}

// did gives back the calls since it was last asked.
func (m *machine) did() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

func (m *machine) knows() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.procs))
}

func (m *machine) Exec(ctx context.Context, id string, e driver.Exec) (int, error) {
	m.mu.Lock()
	run := m.exec
	m.mu.Unlock()
	if run == nil || m.procs[id] == nil {
		return 0, driver.ErrNotRunning
	}
	return run(ctx, e)
}

func (m *machine) Stats(_ context.Context, id string) (driver.Stats, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.procs[id]; m.stats == nil || p == nil || task.Ended(p.State) {
		return driver.Stats{}, false, nil
	}
	return m.stats(), true, nil
}
