package place

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/ability"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// wholeGPU is a GPU in thousandths.
const wholeGPU = 1000

// Request is what a task asks of a node. Tasks with equal requests are one class.
type Request struct {
	CPUMilli, MemoryBytes, DiskBytes int64

	GPUs   int      // devices
	Share  int32    // thousandths of each device: 1000, or less of one; of a share by memory, on a device of the table
	Models []string // any of these; empty: any model

	SameModel  bool  // of all devices
	Memory     int64 // bytes that a device must have
	ShareBytes int64 // of a device's memory, in place of Share; 0: none

	// Anywhere: a task without devices need not leave nodes that have some to others.
	Anywhere bool

	Ports       []*ohmv1.Port        // number 0: dynamic
	Busy        []reconcile.BusyPort // not to be chosen
	Constraints []*ohmv1.Constraint
	Needs       ability.Set // of the node
	Precedence  int

	// Where room is reserved: how long a task runs at most (0: nobody knows), and the job, if
	// any of it is reserved for it.
	Runs     time.Duration
	reserved cellstate.JobName

	// rules between tasks that concern the group; round is the one that they are of.
	rules []ruling
	round *Round

	gpus  *ohmv1.GPURequest
	part  int // of the table, that comes first for the job
	turn  int // among devices that are alike; see another
	class string
	asked int32 // the number of what it asks of GPUs, see patterns; 0: none

	of     group // of which group, in a round
	traced bool  // the decision log has its first choice
}

// NewRequest reads what a task of a job's group asks for. busy are ports that are not to
// be chosen.
func NewRequest(job *cellstate.Job, g *ohmv1.Group, busy []reconcile.BusyPort) *Request {
	res, gpus := g.GetResources(), g.GetGpus()
	r := &Request{
		CPUMilli: res.GetCpuMilli(), MemoryBytes: res.GetMemoryBytes(), DiskBytes: res.GetDiskBytes(),
		GPUs: int(gpus.GetCount()), Share: wholeGPU, Models: gpus.GetModels(),
		SameModel: gpus.GetSameModel() && gpus.GetCount() > 1, Memory: gpus.GetMemoryBytes(), ShareBytes: gpus.GetShareBytes(),
		Constraints: g.GetConstraints(), Needs: ability.OfGroup(g), Precedence: int(job.Record.GetSpec().GetPrecedence()),
		Ports: g.GetPorts(), gpus: gpus, Anywhere: gpus.GetCount() > 0 || g.GetDeviceNodes() == cellstate.DeviceNodesAny,
	}
	if len(r.Ports) > 0 {
		r.Busy = busy
	}
	if gpus.GetShareMilli() > 0 {
		r.Share = gpus.GetShareMilli()
	}
	r.class = r.describe()
	return r
}

// describe writes the request down so that equal ones, and only those, have equal text.
func (r *Request) describe() string {
	b := make([]byte, 0, 64)
	for _, n := range []int64{r.CPUMilli, r.MemoryBytes, r.DiskBytes, int64(r.GPUs), int64(r.Share), int64(r.Precedence)} {
		b = strconv.AppendInt(b, n, 36)
		b = append(b, ' ')
	}
	for _, m := range r.Models {
		b = strconv.AppendQuote(b, m)
	}
	if !r.Anywhere {
		b = append(b, " l"...)
	}
	if r.SameModel {
		b = append(b, " s"...)
	}
	if r.Memory > 0 || r.ShareBytes > 0 {
		b = strconv.AppendInt(append(b, " m"...), r.Memory, 36)
		b = strconv.AppendInt(append(b, ' '), r.ShareBytes, 36)
	}
	b = r.terms(b)
	for _, p := range r.Ports { // their names are no matter
		b = strconv.AppendInt(append(b, " p"...), int64(p.GetNumber()), 36)
	}
	for _, p := range r.Busy {
		b = strconv.AppendInt(append(b, " b"...), int64(p.Port), 36)
		b = strconv.AppendQuote(b, string(p.Node))
	}
	return string(b)
}

// terms writes down what a request asks of a node's records alone.
func (r *Request) terms(b []byte) []byte {
	b = strconv.AppendInt(append(b, ' '), int64(r.Needs), 36)
	for _, c := range r.Constraints {
		b = append(b, ' ')
		b = strconv.AppendQuote(b, c.GetKey())
		b = strconv.AppendInt(b, int64(c.GetOp()), 10)
		for _, v := range c.GetValues() {
			b = strconv.AppendQuote(b, v)
		}
	}
	return b
}

// Size compares what two requests ask for: GPUs first, then CPU, memory and disk.
func (r *Request) Size(o *Request) int {
	return cmp.Or(
		cmp.Compare(r.GPUs*int(r.Share), o.GPUs*int(o.Share)), cmp.Compare(r.CPUMilli, o.CPUMilli),
		cmp.Compare(r.MemoryBytes, o.MemoryBytes), cmp.Compare(r.DiskBytes, o.DiskBytes))
}

// Same says whether two requests are of one class.
func (r *Request) Same(o *Request) bool { return r.class == o.class }

// on is what a task gets of a device, in thousandths; never where the device will not do.
// It must agree with cellstate.ShareOn.
func (r *Request) on(g *GPU) int32 {
	switch {
	case g.Memory < r.Memory || !r.allows(g.Model):
		return never
	case r.ShareBytes > 0:
		return cellstate.MemoryShare(g.Memory, r.ShareBytes)
	}
	return r.Share
}

// never is more of a device than there is.
const never = math.MaxInt32

// takes says whether a task finds its part of a device free.
func (r *Request) takes(g *GPU) bool { return g.Free > 0 && g.Free >= r.on(g) }

// allows says whether a device of that model will do.
func (r *Request) allows(model string) bool {
	return len(r.Models) == 0 || slices.Contains(r.Models, model)
}

// wantsHollow says whether a constraint speaks of simulated nodes at all.
func (r *Request) wantsHollow() bool {
	return slices.ContainsFunc(r.Constraints, func(c *ohmv1.Constraint) bool { return c.GetKey() == "hollow" })
}
