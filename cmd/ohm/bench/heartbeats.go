package bench

import (
	"context"
	"fmt"
	"time"
)

// alone is how long heartbeats are measured without a load, once with few of them and once
// with many.
const alone = 4 * time.Second

// heartbeatsAlone measures what heartbeats cost the server while nothing else happens.
func (t *road) heartbeatsAlone(ctx context.Context, r *Report) error {
	server := -1
	for i, p := range t.processes {
		if p.name == "server" {
			server = i
		}
	}
	if server < 0 {
		return fmt.Errorf("there is no server that could be sent heartbeats")
	}
	span := min(alone, t.Duration)
	cost := func(every time.Duration) (cpu, beats float64, err error) {
		t.sessions.every.Store(int64(every))
		before, sent := usageOf(t.processes[server]).cpu, t.sessions.beats.Load()
		err = sleep(ctx, span)
		return usageOf(t.processes[server]).cpu - before, float64(t.sessions.beats.Load() - sent), err
	}
	fewCPU, few, err := cost(quiet)
	if err != nil {
		return err
	}
	manyCPU, many, err := cost(frequent)
	if err != nil {
		return err
	}
	r.Heartbeats = &Heartbeats{CPU: round(max(0, manyCPU-fewCPU)*1e6/max(1, many-few), 2)}
	return nil
}
