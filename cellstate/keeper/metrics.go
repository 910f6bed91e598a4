package keeper

import "github.com/prometheus/client_golang/prometheus"

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
	return []prometheus.Collector{
		gauge("leading", "1 while this server keeps house for its cell.", k.Leads),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ohm_store_bytes", Help: "What the cell's store takes, its history included, as the leading keeper saw it last."},
			func() float64 { return float64(k.storeBytes.Load()) }),
		gauge("braking", "1 while so many nodes are unseen at once that none is declared lost.", k.Braking),
	}
}
