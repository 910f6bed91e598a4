package chaos

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"

	"github.com/ohmcell/ohm/agent/driver"
)

// disturb lets jobs come and go while agents and the daemon are killed.
func (r *run) disturb(ctx context.Context, report *Report) error {
	g, ctx := errgroup.WithContext(ctx)
	kills := r.scaled(usualKills)
	g.Go(func() error { return r.submit(ctx) })
	g.Go(func() error { return r.kill(ctx, kills, newRand(r.Seed+1), report) })
	return g.Wait()
}

// submit submits and stops the jobs in their time.
func (r *run) submit(ctx context.Context) error {
	client := ohmv1.NewJobsClient(r.world.conn)
	for tick, next := 0, 0; tick <= 100; tick++ {
		part := float64(tick) / 100
		var fresh []*ohmv1.JobSpec
		for ; next < len(r.jobs) && r.jobs[next].at <= part; next++ {
			fresh = append(fresh, r.jobs[next].spec(r.notes))
		}
		if len(fresh) > 0 {
			if _, err := client.Submit(ctx, &ohmv1.SubmitRequest{Jobs: fresh, RequestId: fmt.Sprintf("tick-%d", tick)}); err != nil {
				return fmt.Errorf("submit: %w", err)
			}
		}
		var over []string
		for _, j := range r.jobs {
			if j.stopAt > 0 && j.stopAt <= part && !j.stopped {
				j.stopped, over = true, append(over, j.name)
			}
		}
		if err := r.stop(ctx, over); err != nil {
			return err
		}
		if err := driver.Pause(ctx, r.Duration/100); err != nil {
			return err
		}
		if err := r.world.whole(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stop(ctx context.Context, jobs []string) error {
	if len(jobs) == 0 {
		return nil
	}
	_, err := ohmv1.NewJobsClient(r.world.conn).Stop(ctx, &ohmv1.StopJobsRequest{Namespace: "default", Jobs: jobs})
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// kill kills so many processes, spread over the time: one, or the daemon and the agents above
// it in the same moment, or the same agent again while it starts.
func (r *run) kill(ctx context.Context, kills int, chance *random, report *Report) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	agent := func(n *node, down time.Duration) {
		report.AgentKills++
		g.Go(func() error { return r.world.killAgent(ctx, n, down) })
	}
	daemon := func(down time.Duration) {
		report.DaemonKills++
		g.Go(func() error { return r.world.killDaemon(ctx, down) })
	}
	for report.AgentKills+report.DaemonKills < kills && ctx.Err() == nil {
		done := report.AgentKills + report.DaemonKills
		n, down := r.world.nodes[chance.IntN(len(r.world.nodes))], chance.upTo(2*time.Second)
		switch pick := chance.IntN(10); {
		case pick < 4:
			r.say("kill %s, for %v", n.name, down)
			agent(n, down)
		case pick < 6:
			r.say("kill containerd, for %v", down)
			daemon(down)
		case pick < 8:
			r.say("kill containerd and the agents above it")
			daemon(down)
			for _, n := range r.world.nodes {
				if n.containerd {
					agent(n, chance.upTo(2*time.Second))
				}
			}
		default:
			again := chance.upTo(600 * time.Millisecond)
			r.say("kill %s, and again %v after its start", n.name, again)
			report.AgentKills += 2
			g.Go(func() error {
				if err := r.world.killAgent(ctx, n, down); err != nil {
					return err
				}
				_ = driver.Pause(ctx, again)
				return r.world.killAgent(ctx, n, down/4)
			})
		}
		each := r.Duration / time.Duration(kills)
		used := time.Duration(report.AgentKills+report.DaemonKills-done) * each
		if err := driver.Pause(ctx, used/2+chance.upTo(used)); err != nil {
			break
		}
	}
	return g.Wait()
}
