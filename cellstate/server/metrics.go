package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/status"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// requestCounter counts requests by method and code.
type requestCounter struct{ *prometheus.CounterVec }

func newRequestCounter() *requestCounter {
	return &requestCounter{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ohm_server_requests_total", Help: "Requests answered by this server.",
	}, []string{"method", "code"})}
}

func (c *requestCounter) count(method string, err error) {
	c.WithLabelValues(method, status.Code(err).String()).Inc()
}

// endCounter counts the ends that agents reported, by cause.
type endCounter struct{ *prometheus.CounterVec }

func newEndCounter() *endCounter {
	return &endCounter{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ohm_attempts_ended_total", Help: "Attempts of which this server has stored the end that their agents reported.",
	}, []string{"cause"})}
}

// count takes causes that are not known here, as an agent of a later release may have, for one.
func (c *endCounter) count(cause string) {
	if _, known := task.ClassOf(cause); !known {
		cause = "other"
	}
	c.WithLabelValues(cause).Inc()
}

// metrics recounts the gauges from the snapshot at each scrape, so they cannot drift:
// they are what the cell is, not a sum of what happened.
type metrics struct {
	server *Server

	loads, checked, differed *prometheus.Desc

	revision, jobs, waiting, waitingCPU, waitingMemory, nodes, placements, holds, conflicts *prometheus.Desc
}

// Collector is what a registry scrapes of this server and, recounted each time, of the
// cell. It is unregistered by whoever registers it.
func (s *Server) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ohm_"+name, help, labels, nil)
	}
	return &metrics{
		server:        s,
		loads:         desc("mirror_loads_total", "Loads of the whole cell state by this server."),
		checked:       desc("mirror_checked_pages_total", "Pages of keys in which this server's copy of the cell state was compared with the store."),
		differed:      desc("mirror_differences_total", "How often this server's copy of the cell state was found not to be what stands in the store, and loaded again."),
		revision:      desc("revision", "Revision of the snapshot that the gauges were counted on."),
		jobs:          desc("jobs", "Jobs by state.", "state"),
		waiting:       desc("waiting_slots", "Slots without a node, by scheduler.", "scheduler"),
		waitingCPU:    desc("waiting_cpu_cores", "CPU that the slots without a node ask for, in cores.", "scheduler"),
		waitingMemory: desc("waiting_memory_bytes", "Memory that the slots without a node ask for.", "scheduler"),
		nodes:         desc("nodes", "Nodes by state.", "state"),
		placements:    desc("placements", "Live placements."),
		holds:         desc("holds", "Holds: room on a node that is kept for a transaction which kept losing."),
		conflicts:     desc("conflict_journal_entries", "Lost claims in the journal, by scheduler and reason.", "scheduler", "reason"),
	}
}

func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.loads, m.checked, m.differed, m.revision, m.jobs, m.waiting, m.waitingCPU, m.waitingMemory, m.nodes, m.placements, m.holds, m.conflicts,
	} {
		out <- d
	}
	m.server.requests.Describe(out)
	m.server.ends.Describe(out)
}

func (m *metrics) Collect(out chan<- prometheus.Metric) {
	m.server.requests.Collect(out)
	m.server.ends.Collect(out)
	mirror := m.server.cfg.Mirror
	for d, v := range map[*prometheus.Desc]int64{m.loads: mirror.Loads(), m.checked: mirror.Checked(), m.differed: mirror.Differed()} {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	snapshot := mirror.Snapshot()
	if snapshot == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	t := count(snapshot, time.Now())
	gauge(m.revision, float64(snapshot.Revision()))
	gauge(m.placements, float64(t.placements))
	gauge(m.holds, float64(t.holds))
	for state, n := range t.jobs {
		gauge(m.jobs, float64(n), state)
	}
	for scheduler, w := range t.waiting {
		gauge(m.waiting, float64(w.slots), scheduler)
		gauge(m.waitingCPU, float64(w.cpuMilli)/1000, scheduler)
		gauge(m.waitingMemory, float64(w.memoryBytes), scheduler)
	}
	for state, n := range t.nodes {
		gauge(m.nodes, float64(n), state)
	}
	for of, n := range t.conflicts {
		gauge(m.conflicts, float64(n), of.scheduler, of.reason)
	}
}

// totals are what there is of everything on one snapshot. States and schedulers that
// have nothing are there with zero.
type totals struct {
	jobs, nodes map[string]int
	waiting     map[string]waiting
	placements  int
	holds       int
	conflicts   map[lost]int
}

type waiting struct{ slots, cpuMilli, memoryBytes int64 }

type lost struct{ scheduler, reason string }

func count(s *cellstate.Snapshot, now time.Time) totals {
	t := totals{
		jobs: map[string]int{
			reconcile.Pending: 0, reconcile.Running: 0, reconcile.Stopping: 0,
			reconcile.Succeeded: 0, reconcile.Failed: 0, reconcile.Stopped: 0,
		},
		nodes:   map[string]int{nodeReady: 0, nodeDraining: 0, nodeDrained: 0, nodeIneligible: 0, nodeDiskFull: 0, nodeSilent: 0, nodeLost: 0},
		waiting: map[string]waiting{}, conflicts: map[lost]int{},
	}
	for row := range s.Schedulers() {
		t.waiting[row.Name] = waiting{}
	}
	for j := range s.Jobs() {
		if j.Record == nil {
			continue
		}
		decision := reconcile.Job(s, j, now)
		t.jobs[decision.State]++
		w := t.waiting[j.Record.GetSpec().GetScheduler()]
		for _, c := range decision.Counts {
			w.add(int64(c.GetWaiting()), j.Group(c.GetName()))
		}
		t.waiting[j.Record.GetSpec().GetScheduler()] = w
	}
	for n := range s.Nodes() {
		t.nodes[nodeState(n)]++
		t.placements += n.Count()
		t.holds += len(n.Holds)
	}
	for c := range s.Conflicts("") {
		t.conflicts[lost{c.GetScheduler(), c.GetReason()}]++
	}
	return t
}

func (w *waiting) add(slots int64, g *ohmv1.Group) {
	w.slots += slots
	w.cpuMilli += slots * g.GetResources().GetCpuMilli()
	w.memoryBytes += slots * g.GetResources().GetMemoryBytes()
}
