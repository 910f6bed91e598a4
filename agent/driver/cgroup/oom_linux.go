package cgroup

import "github.com/ohmcell/ohm/pkg/resource"

// Starved says for people how a task ended that was killed for memory; limit 0: it had none.
func (g Groups) Starved(limit int64) string {
	text := "killed for want of memory"
	if limit > 0 {
		text = "killed for memory at its limit of " + resource.FormatBytes(limit)
	}
	if s, ok := g.Stats(); ok && s.MemoryPeak > 0 {
		text += "; its peak was " + resource.FormatBytes(s.MemoryPeak)
	}
	return text
}
