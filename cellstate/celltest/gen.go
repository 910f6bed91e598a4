package celltest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Nodes generates a node of that name, small enough that a few tasks fill it.
func Nodes(name string) *rapid.Generator[Node] {
	return rapid.Custom(func(t *rapid.T) Node {
		return Node{
			Name: name, Model: "T4",
			CPU:    500 * rapid.Int64Range(1, 8).Draw(t, "cpu"),
			Memory: rapid.Int64Range(1, 8).Draw(t, "memory") << 30,
			GPUs:   rapid.IntRange(0, 2).Draw(t, "gpus"),

			Attributes: map[string]string{"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")},
		}
	})
}

// Jobs generates a job of that name, of one of two schedulers and any precedence.
func Jobs(name string) *rapid.Generator[Job] {
	return rapid.Custom(func(t *rapid.T) Job {
		j := Job{
			Name: name, Kind: rapid.SampledFrom([]string{"batch", "service"}).Draw(t, "kind"),
			Precedence: rapid.SampledFrom([]int{Free, BatchLevel, Production}).Draw(t, "precedence"),
			Count:      rapid.IntRange(1, 4).Draw(t, "count"),
			CPU:        500 * rapid.Int64Range(0, 4).Draw(t, "cpu"),
			Memory:     rapid.Int64Range(0, 4).Draw(t, "memory") << 30,
			GPUs:       rapid.IntRange(0, 2).Draw(t, "gpus"),
		}
		app := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "app")
		if app != "" {
			j.Labels = map[string]string{"app": app}
		}
		rule := func() []*ohmv1.Affinity {
			to := rapid.SampledFrom([]*ohmv1.Selector{{Labels: map[string]string{"app": "x"}}, {Job: "j0"}, {}}).Draw(t, "to")
			return []*ohmv1.Affinity{{To: to, Within: rapid.SampledFrom([]string{"node", "zone"}).Draw(t, "within"), Required: true}}
		}
		switch rapid.IntRange(0, 9).Draw(t, "rule") {
		case 7:
			j.AntiAffinity = rule()
		case 8:
			j.Affinity = rule()
		case 9:
			j.Spread = &ohmv1.Spread{Over: "zone", MaxSkew: 1, Required: true}
		}
		if n := rapid.IntRange(-2, 2).Draw(t, "unavailable"); n > 0 {
			j.Disruption = &ohmv1.Disruption{MaxUnavailable: int32(n)}
		}
		if j.GPUs == 1 {
			j.Share = rapid.SampledFrom([]int{0, 300, 500, 600}).Draw(t, "share")
		}
		return j
	})
}

// Txns generates a transaction of up to four claims as a scheduler that decides on s
// may make it: mostly honest, whether it fits or not; now and then with victims, a port,
// or something wrong in it. s must have a job and a node.
func Txns(s *cellstate.Snapshot, id cellstate.TxnID) *rapid.Generator[*cellstate.Txn] {
	return rapid.Custom(func(t *rapid.T) *cellstate.Txn {
		first := rapid.SampledFrom(slices.Collect(s.Jobs())).Draw(t, "first job")
		scheduler := first.Record.GetSpec().GetScheduler()
		jobs := slices.DeleteFunc(slices.Collect(s.Jobs()), func(j *cellstate.Job) bool {
			return j.Record.GetSpec().GetScheduler() != scheduler
		})
		claims := rapid.SliceOfN(claims(s, jobs), 1, 4).Draw(t, "claims")
		mode := rapid.SampledFrom([]cellstate.Mode{cellstate.Incremental, cellstate.Atomic}).Draw(t, "mode")
		txn := Txn(s, mode, claims...)
		txn.ID = id
		if rapid.IntRange(0, 15).Draw(t, "foreign") == 15 {
			txn.Scheduler = "other"
		}
		return txn
	})
}

func claims(s *cellstate.Snapshot, jobs []*cellstate.Job) *rapid.Generator[cellstate.Claim] {
	nodes := slices.Collect(s.Nodes())
	return rapid.Custom(func(t *rapid.T) cellstate.Claim {
		job := rapid.SampledFrom(jobs).Draw(t, "job")
		n := rapid.SampledFrom(nodes).Draw(t, "node")
		count := 1
		if g := job.Group("main"); g != nil {
			count = int(g.GetCount())
		}
		c := Claim(s, Slot(s, job.Name, "main", rapid.IntRange(0, count-1).Draw(t, "index")), n.Name)
		lower := slices.DeleteFunc(slices.Clone(n.Placements()), func(p *cellstate.Placement) bool { return int(p.GetPrecedence()) >= c.Precedence })
		if len(lower) > 0 && rapid.Bool().Draw(t, "evict") {
			n := rapid.IntRange(1, min(2, len(lower))).Draw(t, "victims")
			for _, p := range rapid.Permutation(lower).Draw(t, "lower")[:n] {
				c.Victims = append(c.Victims, Victim(p))
			}
		}
		if end := rapid.Int64Range(0, 3).Draw(t, "ends"); end > 0 {
			c.Ends = time.Unix(end, 0)
		}
		switch rapid.IntRange(0, 19).Draw(t, "extra") {
		case 14, 15, 16:
			c.Ports = []*ohmv1.Port{{Name: "http", Number: int32(rapid.IntRange(8080, 8081).Draw(t, "port"))}}
		case 17:
			c.Attempt = rapid.IntRange(0, 3).Draw(t, "attempt")
		case 18:
			c.GPUs = append(c.GPUs, &ohmv1.DeviceShare{Id: GPU(9), Milli: 1000})
		case 19:
			wrong(t, s, &c)
		}
		return c
	})
}

// wrong spoils a claim.
func wrong(t *rapid.T, s *cellstate.Snapshot, c *cellstate.Claim) {
	switch rapid.IntRange(0, 3).Draw(t, "wrong") {
	case 0:
		c.Precedence++
	case 1:
		c.JobRevision--
	case 2:
		c.Slot.Index += 4
	case 3: // a victim that may have the same precedence, or be elsewhere
		for n := range s.Nodes() {
			for _, p := range n.Placements() {
				c.Victims = []*ohmv1.Victim{Victim(p)}
				return
			}
		}
	}
}
