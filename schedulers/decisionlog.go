package schedulers

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Bounds of the decision log: of the claims that it keeps, at some 500 bytes each, and of those that an
// answer names.
const (
	logMost    = 10_000
	chosenMost = 50
)

// decisionLog keeps the last rounds as they were decided. To note one costs no more than to
// keep hold of what the round has made anyway; it is put into words when somebody asks.
// Only the Runner's loop uses it.
type decisionLog struct {
	rounds []*decidedRound // the oldest first
	claims int
}

// decidedRound is what one call of the policy came to.
type decidedRound struct {
	at        time.Time
	seed      uint64
	snapshot  cellstate.Revision
	decisions []Decision
	flight    *flight // its results come later; its snapshot goes then
	landed    bool
}

// note keeps a round, and forgets the oldest ones beyond the bound.
func (l *decisionLog) note(d *decidedRound) {
	l.rounds = append(l.rounds, d)
	l.claims += d.flight.claims()
	for l.claims > logMost && len(l.rounds) > 1 {
		l.claims -= l.rounds[0].flight.claims()
		l.rounds[0] = nil
		l.rounds = l.rounds[1:]
	}
}

// landed notes that the store has answered.
func (l *decisionLog) landed(f *flight) {
	for _, d := range slices.Backward(l.rounds) {
		if d.flight == f {
			d.landed, f.snapshot = true, nil // a snapshot holds on to much
			return
		}
	}
	f.snapshot = nil
}

// decision is what the log says of a transaction; nil if it is not there, or not any more.
func (l *decisionLog) decision(id cellstate.TxnID) *ohmv1.Decision {
	for _, d := range slices.Backward(l.rounds) {
		for _, txn := range d.flight.txns {
			if txn.ID == id {
				return d.words(txn)
			}
		}
	}
	return nil
}

func (d *decidedRound) words(txn *cellstate.Txn) *ohmv1.Decision {
	v := &ohmv1.Decision{
		Transaction: string(txn.ID), Scheduler: txn.Scheduler, Instance: txn.Instance, Mode: modeName(txn.Mode),
		Claims: int32(len(txn.Claims)), SnapshotRevision: int64(d.snapshot), Seed: d.seed, Time: timestamppb.New(d.at), Source: "log",
	}
	var groups []cellstate.Slot // index and version left out
	for _, c := range txn.Claims {
		of := cellstate.Slot{Namespace: c.Slot.Namespace, Job: c.Slot.Job, Group: c.Slot.Group}
		at := slices.Index(groups, of)
		if at < 0 {
			at = len(groups)
			groups = append(groups, of)
			v.Groups = append(v.Groups, d.group(of))
		}
		v.Groups[at].Claims++
		if len(v.Chosen) == chosenMost {
			v.MoreChosen++
			continue
		}
		v.Chosen = append(v.Chosen, chosenNode(&c))
	}
	d.outcome(v, txn)
	return v
}

func chosenNode(c *cellstate.Claim) *ohmv1.ChosenNode {
	n := &ohmv1.ChosenNode{Namespace: c.Slot.Namespace, Task: c.Slot.Task(), Attempt: int32(c.Attempt), Node: string(c.Node), Gpus: c.GPUs}
	for _, w := range c.Victims {
		n.Victims = append(n.Victims, cellstate.SlotOf(w.GetSlot()).Task())
	}
	return n
}

func (d *decidedRound) group(of cellstate.Slot) *ohmv1.GroupDecision {
	g := &ohmv1.GroupDecision{Namespace: of.Namespace, Job: of.Job, Group: of.Group}
	for i := range d.decisions {
		if n := &d.decisions[i]; n.Job == of.JobName() && n.Group == of.Group {
			g.Nodes, g.Considered, g.InFlight, g.ScoredBy = int32(n.Nodes), int32(n.Considered), int32(n.InFlight), n.ScoredBy
			for _, s := range n.Best {
				g.Best = append(g.Best, &ohmv1.ScoredNode{Node: string(s.Node), Score: s.Score})
			}
		}
	}
	return g
}

// outcome adds what the store made of the transaction.
func (d *decidedRound) outcome(v *ohmv1.Decision, txn *cellstate.Txn) {
	v.Outcome = cellstate.FateUnderWay
	if !d.landed {
		return
	}
	v.Outcome = cellstate.FateUnknown
	if err := d.flight.err; err != nil {
		v.Message = "the store did not answer: " + err.Error()
	}
	for _, res := range d.flight.results {
		if res.Txn.ID != txn.ID {
			continue
		}
		v.Revision, v.Committed = int64(res.Revision), int32(len(res.Committed))
		switch {
		case len(res.Committed) == len(txn.Claims):
			v.Outcome = cellstate.FateCommitted
		case len(res.Committed) > 0:
			v.Outcome = cellstate.FatePartly
		case len(res.Conflicts) > 0:
			v.Outcome = cellstate.FateLost
		}
		for i := range res.Conflicts[:min(len(res.Conflicts), chosenMost)] {
			v.Lost = append(v.Lost, lostClaim(txn, &res.Conflicts[i]))
		}
	}
}

func lostClaim(txn *cellstate.Txn, c *cellstate.Conflict) *ohmv1.LostClaim {
	claim := &txn.Claims[c.Claim]
	l := &ohmv1.LostClaim{
		Task: claim.Slot.Task(), Node: string(claim.Node), Reason: string(c.Reason), Dimension: c.Dimension, Wanted: c.Wanted, Free: c.Free,
	}
	if c.Winner != nil {
		l.Winner, l.WinnerScheduler = c.Winner.Slot.Task(), c.Winner.GetScheduler()
	}
	return l
}

func modeName(m ohmv1.Mode) string {
	if m == cellstate.Atomic {
		return "atomic"
	}
	return "incremental"
}
