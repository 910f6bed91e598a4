// Package packing compares ways to choose nodes on a recorded cell, in one process: every
// contender is a Scorer of schedulers/place, behind the product's own filters, table and commit
// check, so that what differs between two rows is the choice alone.
package packing

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cmd/ohm/openb"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// cell is a simulated cell, which some instances of one policy fill.
type cell struct {
	instances []instance
	snapshot  *cellstate.Snapshot
	gpus      int64 // thousandths, of all nodes

	used      int64 // thousandths of GPUs
	commits   int
	conflicts int
	decided   int
	busy      time.Duration // CPU while the policy decided, of the whole process
}

// instance is one of a scheduler.
type instance struct {
	policy schedulers.Scheduler
	home   schedulers.Home
}

// kinds are the schedulers of the recorded tasks, by their number in a home.
var kinds = [...]string{"batch", "ml", "service"}

// owns says whether the n-th task of an offer is this instance's.
func (i instance) owns(t openb.Task, n int) bool {
	return n%i.home.Of == i.home.Index && (i.home.Schedulers == 1 || t.Job.GetScheduler() == kinds[i.home.Scheduler])
}

// alone is the one instance of the one scheduler.
var alone = homes(1, 1)

// homes are those of n instances, each of one of so many schedulers in turn.
func homes(n, schedulerCount int) (all []schedulers.Home) {
	for i := range n {
		of := (n - i%schedulerCount + schedulerCount - 1) / schedulerCount
		all = append(all, schedulers.Home{Scheduler: i % schedulerCount, Schedulers: schedulerCount, Index: i / schedulerCount, Of: of})
	}
	return all
}

// newCell is a cell of nodes on which nothing runs; tasks are those that will come.
func newCell(nodes []*ohmv1.Node, tasks []openb.Task, of contender, instances []schedulers.Home) (*cell, error) {
	c := &cell{}
	for _, home := range instances {
		c.instances = append(c.instances, instance{of.policy(tasks), home})
	}
	var records []cellstate.Change
	for _, n := range nodes {
		c.gpus += 1000 * int64(len(n.GetGpus()))
		name := cellstate.NodeName(n.GetName())
		records = append(records,
			cellstate.Change{Key: cellstate.NodeKey(name), Value: n, Revision: 1},
			cellstate.Change{Key: cellstate.AliveKey(name), Value: &ohmv1.Alive{Node: n.GetName()}, Revision: 1})
	}
	var err error
	if c.snapshot, err = cellstate.NewSnapshot(1, records, nil); err != nil {
		return nil, err
	}
	for _, i := range c.instances { // who has read the cell before there is work
		if _, err := i.policy.Schedule(context.Background(), schedulers.Input{Snapshot: c.snapshot}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// percent is how much of the GPUs is allocated.
func (c *cell) percent() float64 { return 100 * float64(c.used) / float64(c.gpus) }

// verdict on one task.
type verdict int

const (
	placed  verdict = iota
	refused         // no node has room
	lost            // another instance was there first
)

// offer lets the instances place tasks, each its part, all on the same snapshot; then they commit one
// after the other. The verdicts are in the order of the tasks.
func (c *cell) offer(tasks []openb.Task) ([]verdict, error) {
	var jobs []cellstate.Change
	for _, t := range tasks {
		name := cellstate.JobNameOf(t.Job)
		if c.snapshot.Job(name) == nil {
			jobs = append(jobs, cellstate.Change{Key: cellstate.JobKey(name), Value: &ohmv1.Job{Version: 1, Spec: t.Job}})
		}
	}
	if err := c.apply(jobs); err != nil {
		return nil, err
	}
	seen, verdicts := c.snapshot, make([]verdict, len(tasks))
	for _, each := range c.instances {
		in := schedulers.Input{Snapshot: seen, Seed: uint64(seen.Revision()) * 0x9E3779B97F4A7C15, Home: each.home}
		asked := map[cellstate.Slot]int{}
		for i := range tasks {
			if !each.owns(tasks[i], i) {
				continue
			}
			g := tasks[i].Job.GetGroups()[0]
			slot := slotOf(tasks[i])
			asked[slot] = i
			in.Work = append(in.Work, schedulers.Work{Job: seen.Job(slot.JobName()), Needs: []reconcile.Need{{Slot: slot, Attempt: 1, Group: g}}})
		}
		if len(in.Work) == 0 {
			continue
		}
		began := cpu()
		p, err := each.policy.Schedule(context.Background(), in)
		c.busy += cpu() - began
		c.decided += len(in.Work)
		if err != nil {
			return nil, err
		}
		if err := c.commit(in, p, asked, verdicts); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

func slotOf(t openb.Task) cellstate.Slot {
	return cellstate.Slot{Namespace: t.Job.GetNamespace(), Job: t.Job.GetName(), Group: "main", Version: 1}
}

// commit judges a proposal as every commit is judged.
func (c *cell) commit(in schedulers.Input, p schedulers.Proposal, asked map[cellstate.Slot]int, verdicts []verdict) error {
	fits := map[string]*cellstate.Txn{} // Validate wants the job's own scheduler
	for _, txn := range p.Txns {
		for _, claim := range txn.Claims {
			of := c.snapshot.Job(claim.Slot.JobName()).Record.GetSpec().GetScheduler()
			if fits[of] == nil {
				fits[of] = &cellstate.Txn{ID: "packing", Mode: cellstate.Incremental, Scheduler: of, Snapshot: in.Snapshot.Revision()}
			}
			fits[of].Claims = append(fits[of].Claims, claim)
		}
	}
	claimed := 0
	for _, of := range []string{"service", "batch", "ml"} {
		txn := fits[of]
		if txn == nil {
			continue
		}
		claimed += len(txn.Claims)
		fit, conflicts := cellstate.Validate(c.snapshot, txn)
		if len(conflicts) > 0 && len(c.instances) == 1 {
			return fmt.Errorf("a proposal does not fit its own snapshot: %+v", conflicts[0])
		}
		for _, lose := range conflicts {
			verdicts[asked[txn.Claims[lose.Claim].Slot]] = lost
		}
		c.commits, c.conflicts = c.commits+len(fit), c.conflicts+len(conflicts)
		var changes []cellstate.Change
		for _, i := range fit {
			claim := txn.Claims[i]
			for _, g := range claim.GPUs {
				c.used += int64(g.GetMilli())
			}
			changes = append(changes, cellstate.Change{Key: claim.Slot.PlacementKey(), Value: &ohmv1.Placement{
				Slot: claim.Slot.Proto(), Attempt: 1, Node: string(claim.Node), Resources: claim.Resources, Gpus: claim.GPUs, Precedence: int32(claim.Precedence), Scheduler: of}})
		}
		if err := c.apply(changes); err != nil {
			return err
		}
	}
	for _, u := range p.Unplaced {
		for _, slot := range u.Slots {
			claimed++
			verdicts[asked[slot]] = refused
		}
	}
	if claimed != len(asked) {
		return fmt.Errorf("%d tasks are claimed or explained, of %d", claimed, len(asked))
	}
	return nil
}

// cpu is what this process has used so far; its clock never fails.
func cpu() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

func (c *cell) apply(changes []cellstate.Change) error {
	if len(changes) == 0 {
		return nil
	}
	at := c.snapshot.Revision() + 1
	for i := range changes {
		changes[i].Revision = at
	}
	next, _, err := c.snapshot.Apply(cellstate.Batch{Revision: at, Changes: changes})
	if err == nil {
		c.snapshot = next
	}
	return err
}
