package keeper

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ohmcell/ohm/cellstate"
)

// Collectors are what a registry scrapes of this keeper. An alert belongs on the brake.
func (k *Keeper) Collectors() []prometheus.Collector {
	gauge := func(name, help string, is func() bool) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ohm_keeper_" + name, Help: help}, func() float64 {
			if is() {
				return 1
			}
			return 0
		})
	}
	size := func(name, help string, of func(*cellstate.Size) int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ohm_store_" + name, Help: help}, func() float64 {
			if s := k.size.Load(); s != nil {
				return float64(of(s))
			}
			return 0
		})
	}
	return []prometheus.Collector{
		gauge("leading", "1 while this server keeps house for its cell.", k.Leads),
		size("bytes", "What the cell's store takes, its history included, as the leading keeper saw it last.", func(s *cellstate.Size) int64 { return s.InUse }),
		size("file_bytes", "What that takes on disk, with what is free in the file.", func(s *cellstate.Size) int64 { return s.File }),
		size("quota_bytes", "The size of the file at which the store takes no more writes; 0: none, or not known.", func(s *cellstate.Size) int64 { return s.Quota }),
		size("alarm_percent", "The alarm level that the file has reached, in percent of the quota: 0, 70 or 85.", func(s *cellstate.Size) int64 { return int64(level(*s)) }),
		gauge("braking", "1 while so many nodes are silent at once that nothing on them is given up.", k.Braking),
	}
}
