package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/ohmcell/ohm/cellstate/keeper"
	"github.com/ohmcell/ohm/cellstate/server"
	"github.com/ohmcell/ohm/pkg/config"
)

// silenceFlags are a server's settings for what it does when it does not hear of agents, or
// others not of it.
func silenceFlags(f *pflag.FlagSet, limits *server.Limits, keep *keeper.Limits) {
	f.DurationVar(&limits.Silent, "silent-after", 40*time.Second, "how long nothing may be heard of an agent until its session is closed; it is asked to be heard four times as often")
	f.DurationVar(&keep.LostAfter, "lost-after", 40*time.Second, "how long a node may be without a session until its tasks are given up, unless their jobs say otherwise (whenSilent)")
	f.DurationVar(&keep.KeepFor, "keep-for", 24*time.Hour, "the same for tasks of jobs with whenSilent.then keep")
	f.DurationVar(&keep.Grace, "lost-grace", 40*time.Second, "how long a server that has just begun to lead the housekeeping gives nothing up")
	f.Float64Var(&keep.BrakeShare, "brake-share", 1.0/3, "when more than this share of the nodes is silent at once, nothing is given up")
	f.IntVar(&keep.BrakeNodes, "brake-nodes", 3, "and at least so many of them")
	f.DurationVar(&limits.Lease, "lease", 10*time.Second, "for how long what this server has in the store outlives it: its sessions, and its leadership")
	config.Settings(f, "silent-after", "lost-after", "keep-for", "lost-grace", "brake-share", "brake-nodes", "lease")
}
