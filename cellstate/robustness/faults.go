package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/robustness/relay"
)

// fault is something that is done to the cell while it works. inject returns when it has
// had its effect and is over; errMissed: it found nothing to have an effect on.
type fault struct {
	name   string
	inject func(ctx context.Context, r *run, chance *rand.Rand) error
}

var errMissed = errors.New("there was nothing to do it to")

// Faults are their names, in the order of the report.
func faults() []fault {
	return []fault{
		{"etcd's leader killed", leaderKilled},
		{"etcd's leader stopped", leaderStopped},
		{"scheduler killed between decision and commit", schedulerKilled},
		{"scheduler stopped between decision and commit", schedulerStopped},
		{"reply dropped", replyDropped},
		{"watch dropped changes", once(relay.DropChanges)},
		{"watch repeated changes", once(relay.RepeatChanges)},
		{"watch cut", watchCut},
		{"watch compacted away", watchCompacted},
		{"no space", noSpace},
		{"snapshot restored", restored},
		{"server killed", serverKilled},
	}
}

func leaderKilled(ctx context.Context, r *run, chance *rand.Rand) error {
	leader, err := r.etcd.leader(ctx)
	if err != nil {
		return err
	}
	if err := leader.kill(); err != nil {
		return err
	}
	if _, err := r.etcd.leader(ctx); err != nil {
		return err
	}
	if err := r.moves(ctx); err != nil {
		return err
	}
	return r.etcd.start(leader)
}

func leaderStopped(ctx context.Context, r *run, chance *rand.Rand) error {
	leader, err := r.etcd.leader(ctx)
	if err != nil {
		return err
	}
	if err := leader.process.stop(); err != nil {
		return err
	}
	_, err = r.etcd.leader(ctx) // another one
	if err == nil {
		err = pause(ctx, span(chance, 500, 2500))
	}
	return errors.Join(err, leader.process.resume())
}

// schedulerKilled kills a scheduler whose commit is on its way. The commit arrives before
// its successor is there, after, or never.
func schedulerKilled(ctx context.Context, r *run, chance *rand.Rand) error {
	return r.held(ctx, chance, func(p *part, commit *relay.Asked) error {
		if err := p.process.kill(); err != nil {
			return err
		}
		arrives := chance.IntN(3)
		if arrives == 0 {
			commit.Release(true)
		}
		if err := r.cell.start(p); err != nil {
			return err
		}
		if arrives == 1 {
			if err := pause(ctx, span(chance, 0, 500)); err != nil {
				return err
			}
		}
		commit.Release(arrives == 1)
		return nil
	})
}

// schedulerStopped freezes a scheduler whose commit is on its way, sometimes for longer
// than its lease. The commit arrives late, before it goes on or after.
func schedulerStopped(ctx context.Context, r *run, chance *rand.Rand) error {
	return r.held(ctx, chance, func(p *part, commit *relay.Asked) error {
		if err := p.process.stop(); err != nil {
			return err
		}
		err := pause(ctx, span(chance, 500, 6000))
		if chance.IntN(2) == 0 {
			commit.Release(true)
		}
		err = errors.Join(err, p.process.resume())
		if err == nil {
			err = pause(ctx, span(chance, 0, 300))
		}
		commit.Release(true)
		return err
	})
}

// held has do act while a commit of some scheduler is on its way to etcd.
func (r *run) held(ctx context.Context, chance *rand.Rand, do func(*part, *relay.Asked) error) error {
	p, commit, err := r.ask(ctx, chance, (*part).isScheduler, relay.Hold)
	if err != nil {
		return err
	}
	defer commit.Release(true)
	return do(p, commit)
}

// ask has a deed done to one of the parts: the first, in an order of chance, that sends or
// gets what it is for.
func (r *run) ask(ctx context.Context, chance *rand.Rand, of func(*part) bool, d relay.Deed) (*part, *relay.Asked, error) {
	for _, i := range chance.Perm(len(r.cell.parts)) {
		p := r.cell.parts[i]
		if !of(p) {
			continue
		}
		a := p.relay.Ask(d)
		err := done(ctx, a)
		if !errors.Is(err, errMissed) {
			return p, a, err
		}
	}
	return nil, nil, errMissed
}

// replyDropped loses the reply to a commit that was applied: the connection breaks, or
// nothing comes for as long as the sender waits.
func replyDropped(ctx context.Context, r *run, chance *rand.Rand) error {
	deed := relay.LoseReply
	if chance.IntN(3) == 0 {
		deed = relay.SwallowReply
	}
	_, _, err := r.ask(ctx, chance, whichever, deed)
	return err
}

func once(d relay.Deed) func(context.Context, *run, *rand.Rand) error {
	return func(ctx context.Context, r *run, chance *rand.Rand) error {
		_, _, err := r.ask(ctx, chance, whichever, d)
		return err
	}
}

// done waits until a deed is done, and takes it back if nothing comes along for it.
func done(ctx context.Context, a *relay.Asked) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-a.Done:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	a.Withdraw()
	select {
	case <-a.Done: // meanwhile
		return nil
	default:
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errMissed
}

func watchCut(ctx context.Context, r *run, chance *rand.Rand) error {
	r.anyPart(chance, whichever).relay.CutWatches()
	return nil
}

// watchCompacted keeps the changes from one process until what it has seen last is
// compacted.
func watchCompacted(ctx context.Context, r *run, chance *rand.Rand) error {
	p := r.anyPart(chance, whichever)
	before := p.relay.Counts().Compacted
	p.relay.Freeze()
	defer p.relay.Thaw()
	if err := pause(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	if err := r.moves(ctx); err != nil {
		return err
	}
	if _, err := r.etcd.client.Compact(ctx, int64(r.follower.at())); err != nil {
		return fmt.Errorf("compacting: %w", err)
	}
	p.relay.CutWatches()
	p.relay.Thaw()
	err := until(ctx, p.instance+" hears of the compaction", func(context.Context) error {
		if p.relay.Counts().Compacted == before {
			return errMissed
		}
		return nil
	})
	return err
}

// noSpace raises etcd's alarm. Nothing can be written then, everything can be read, and
// once it is over the cell goes on by itself.
func noSpace(ctx context.Context, r *run, chance *rand.Rand) error {
	if err := r.etcd.alarm(ctx, true); err != nil {
		return err
	}
	defer func() { _ = r.etcd.alarm(context.WithoutCancel(ctx), false) }() // if it is raised still
	if err := pause(ctx, 300*time.Millisecond); err != nil {
		return err
	}
	at, err := r.present(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, span(chance, 500, 1500)); err != nil {
		return err
	}
	later, err := r.reader.Load(ctx)
	switch {
	case err != nil:
		r.violated("no space", "reads do not work: %v", err)
	case len(r.claimsAfter(later, at)) > 0:
		r.violated("no space", "tasks were placed after revision %d: %v", at, r.claimsAfter(later, at))
	}
	if err := r.etcd.alarm(ctx, false); err != nil {
		return err
	}
	return r.moves(ctx)
}

// claimsAfter are the placements newer than a revision.
func (r *run) claimsAfter(s *cellstate.Snapshot, at cellstate.Revision) (all []string) {
	for n := range s.Nodes() {
		for _, p := range n.Placements() {
			if p.Revision > at {
				all = append(all, p.Slot.String())
			}
		}
	}
	return all
}

// restored has the etcd go back to what it was a while ago. Nobody speaks to it meanwhile,
// and the audit begins anew: what it saw after the save is gone, and revisions come again.
func restored(ctx context.Context, r *run, chance *rand.Rand) error {
	folder, err := r.etcd.save()
	if err != nil {
		return err
	}
	if err := r.moves(ctx); err != nil {
		return err
	}
	if err := pause(ctx, span(chance, 300, 1500)); err != nil {
		return err
	}
	r.pauseReads(true)
	defer r.pauseReads(false)
	for _, p := range r.cell.parts {
		p.relay.Shut()
	}
	defer func() {
		for _, p := range r.cell.parts {
			p.relay.Admit()
		}
	}()
	// What is on its way has arrived when a write of the run's own has.
	if err := pause(ctx, 100*time.Millisecond); err != nil {
		return err
	}
	at, err := r.present(ctx)
	if err != nil {
		return err
	}
	if err := r.follower.reach(ctx, at); err != nil {
		return err
	}
	if err := r.follower.end(); err != nil {
		return err
	}
	if err := r.etcd.restore(ctx, folder); err != nil {
		return err
	}
	if err := r.follower.begin(r.auditing); err != nil {
		return err
	}
	for _, p := range r.cell.parts {
		p.relay.Admit()
	}
	r.pauseReads(false)
	return r.moves(ctx)
}

func serverKilled(ctx context.Context, r *run, chance *rand.Rand) error {
	p := r.anyPart(chance, func(p *part) bool { return !p.isScheduler() })
	if err := p.process.kill(); err != nil {
		return err
	}
	if err := pause(ctx, span(chance, 0, 1000)); err != nil {
		return err
	}
	return r.cell.start(p)
}

// anyPart is one of the parts.
func (r *run) anyPart(chance *rand.Rand, of func(*part) bool) *part {
	for {
		if p := r.cell.parts[chance.IntN(len(r.cell.parts))]; of(p) {
			return p
		}
	}
}

func whichever(*part) bool { return true }

// span is a time between two numbers of milliseconds.
func span(chance *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+chance.IntN(to-from)) * time.Millisecond
}
