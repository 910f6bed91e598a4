package agent

import (
	"context"
	"fmt"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

func (a *Agent) diskFull() bool { return a.facts.Load().GetDiskFull() != "" }

// watchDisk looks at the disk until ctx ends.
func (a *Agent) watchDisk(ctx context.Context) error {
	for ctx.Err() == nil {
		if a.DiskPath == "" {
			return nil
		}
		if a.lookAtDisk() {
			ring(a.bell) // logs may have to go
		}
		pause(ctx, a.DiskLook)
	}
	return nil
}

// lookAtDisk says whether the disk is full now.
func (a *Agent) lookAtDisk() (full bool) {
	if a.DiskPath == "" {
		return false
	}
	taken, err := diskOf(a.DiskPath)
	if err != nil {
		a.Log.Warn("the disk cannot be looked at", zap.Error(err))
		return a.diskFull()
	}
	a.factsMu.Lock()
	defer a.factsMu.Unlock()
	facts := a.facts.Load()
	was := facts.GetDiskFull() != ""
	full = tooFull(was, taken, a.DiskFull, a.DiskFree)
	if full == was {
		return full
	}
	facts = proto.CloneOf(facts)
	if facts.DiskFull = ""; full {
		facts.DiskFull = fmt.Sprintf("%d%% of the agent's disk is taken; below %d%% it takes tasks again", taken, a.DiskFree)
	}
	a.Log.Warn("whether the disk is full has changed", zap.Bool("full", full), zap.Int("percent", taken))
	a.facts.Store(facts)
	ring(a.changed)
	return full
}

// tooFull: what was full stays so until there is some more room again.
func tooFull(was bool, taken, full, free int) bool {
	if was {
		return taken >= min(free, full)
	}
	return taken >= full
}
