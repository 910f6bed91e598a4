package cellstate

import (
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Amounts are sums over many tasks, by dimension: thousandths of a core, bytes of memory
// and of disk, thousandths of a GPU.
type Amounts [4]int64

// Unlimited as an amount of a limit says that its dimension is not limited.
const Unlimited int64 = -1

// dimension is how people see an amount.
type dimension struct {
	name string
	text func(int64) string
}

// dimensionOf is the dimension of index d.
func dimensionOf(d int) dimension {
	switch d {
	case 0:
		return dimension{"cpu", resource.FormatCPU}
	case 1:
		return dimension{"memory", resource.FormatBytes}
	case 2:
		return dimension{"disk", resource.FormatBytes}
	}
	return dimension{"gpus", resource.FormatCPU}
}

// DimensionName is cpu, memory, disk or gpus.
func DimensionName(d int) string { return dimensionOf(d).name }

// AmountText is an amount of dimension d as people write it.
func AmountText(d int, amount int64) string { return dimensionOf(d).text(amount) }

func amountsOf(r *ohmv1.Resources, gpus []*ohmv1.DeviceShare) Amounts {
	a := Amounts{r.GetCpuMilli(), r.GetMemoryBytes(), r.GetDiskBytes()}
	for _, g := range gpus {
		a[3] += int64(g.GetMilli())
	}
	return a
}

// GroupAmounts are what one task of a group takes; of a share by memory, which is another
// one on each device, the most.
func GroupAmounts(g *ohmv1.Group) Amounts {
	a := amountsOf(g.GetResources(), nil)
	if share := g.GetGpus().GetShareMilli(); share > 0 {
		a[3] = int64(share)
	} else {
		a[3] = 1000 * int64(g.GetGpus().GetCount())
	}
	return a
}

// AmountsOf are stored amounts of which absent ones are nothing.
func AmountsOf(p *ohmv1.Amounts) Amounts {
	return Amounts{p.GetCpuMilli(), p.GetMemoryBytes(), p.GetDiskBytes(), p.GetGpuMilli()}
}

// LimitOf are stored amounts of which absent ones are unlimited.
func LimitOf(p *ohmv1.Amounts) Amounts {
	if p == nil {
		p = &ohmv1.Amounts{}
	}
	limit := Amounts{Unlimited, Unlimited, Unlimited, Unlimited}
	for d, have := range []*int64{p.CpuMilli, p.MemoryBytes, p.DiskBytes, p.GpuMilli} {
		if have != nil {
			limit[d] = *have
		}
	}
	return limit
}

// Proto is the stored form; amounts that are nothing are left out.
func (a Amounts) Proto() *ohmv1.Amounts {
	p := &ohmv1.Amounts{}
	for d, to := range []**int64{&p.CpuMilli, &p.MemoryBytes, &p.DiskBytes, &p.GpuMilli} {
		if amount := a[d]; amount != 0 {
			*to = &amount
		}
	}
	return p
}

// Plus is the sum.
func (a Amounts) Plus(b Amounts) Amounts { return a.times(b, 1) }

// Minus is the difference, which may fall below nothing.
func (a Amounts) Minus(b Amounts) Amounts { return a.times(b, -1) }

func (a Amounts) times(b Amounts, n int64) Amounts {
	for d := range a {
		a[d] += n * b[d]
	}
	return a
}

// Most is the larger of both in each dimension.
func (a Amounts) Most(b Amounts) Amounts {
	for d := range a {
		a[d] = max(a[d], b[d])
	}
	return a
}

// Least is the smaller of both in each dimension.
func (a Amounts) Least(b Amounts) Amounts {
	for d := range a {
		a[d] = min(a[d], b[d])
	}
	return a
}

// Short is the first dimension in which an amount above nothing is more than what is left
// under a limit; -1: it fits.
func (a Amounts) Short(left, limit Amounts) int {
	for d, amount := range a {
		if limit[d] != Unlimited && amount > 0 && amount > left[d] {
			return d
		}
	}
	return -1
}
