package cellstate

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Plan turns transactions into the writes that commit what fits of them on a snapshot:
// one write for each node of incremental transactions (several may share it), one
// for a whole atomic transaction. Each write compares, besides the fence of every node
// that it adds to, each job's record and each slot, so it keeps L1 to L5 also when the
// snapshot is old or wrong. It compares, first of all, that no quota was created since,
// and the shares of those that it is paid from. What several writes spend of one share,
// and requests under way together, only their sender can see: the plan counts it in its
// own writes, and Snapshot.Beside tells it of the others.
type Plan struct {
	Writes []Write
	// Claims says which claims each write commits.
	Claims [][]ClaimRef
	// Spends says what writes spend of quotas, by write.
	Spends map[int][]Spend
	// Conflicts of each transaction, judged on the snapshot.
	Conflicts [][]Conflict
	// Done are claims found committed already under their own transaction's id, with
	// the revision of their placement: the reply to an earlier request was lost.
	Done map[ClaimRef]Revision
	// Deferred transactions have claims that must wait for the next plan: they share a
	// node with an atomic one of this plan, or there are too many for one write.
	Deferred []int
}

// ClaimRef is a claim of one of the planned transactions.
type ClaimRef struct{ Txn, Claim int }

// MakePlan plans the claims of txns for which skip is false, with at most so many of
// incremental transactions in one write.
func MakePlan(s *Snapshot, now time.Time, most int, txns []*Txn, skip func(ClaimRef) bool) *Plan {
	claims := 0
	for _, txn := range txns {
		claims += len(txn.Claims)
	}
	_, quotas := s.Meta(quotasMeta)
	p := &planner{
		quotas: Guard{Key: MetaKey(quotasMeta), Revision: quotas},
		Plan: &Plan{
			Conflicts: make([][]Conflict, len(txns)), Done: map[ClaimRef]Revision{},
			Writes: make([]Write, 0, claims), Claims: make([][]ClaimRef, 0, claims),
		},
		valid: newValidator(s, claims), now: timestamppb.New(now), most: most, byNode: make(map[NodeName]int, claims), atomic: map[NodeName]bool{},
	}
	p.valid.commits = true
	for t, txn := range txns {
		p.txn(t, txn, func(i int) bool { return skip(ClaimRef{t, i}) })
	}
	for i := range p.Writes {
		countFences(&p.Writes[i])
	}
	return p.Plan
}

type planner struct {
	*Plan
	quotas Guard // that no quota was created since the snapshot
	valid  *validator
	now    *timestamppb.Timestamp
	most   int              // claims of a write
	byNode map[NodeName]int // the write that owns a node
	atomic map[NodeName]bool
	jobOf  JobName                // of the last claim: claims of one job follow each other
	job    Guard                  // its record
	tasks  Guard                  // all that is stored of its tasks
	ends   *timestamppb.Timestamp // of the last claim that has one
	scopes map[string]int         // the write that owns a scope
	stuck  map[string]bool        // scopes of which a claim was deferred: what was judged on top of it is, too
}

// end is a latest end as it is stored.
func (p *planner) end(at time.Time) *timestamppb.Timestamp {
	if p.ends == nil || !p.ends.AsTime().Equal(at) {
		p.ends = timestamppb.New(at)
	}
	return p.ends
}

func (p *planner) txn(t int, txn *Txn, skip func(int) bool) {
	todo := make([]bool, len(txn.Claims))
	for i := range txn.Claims {
		if skip(i) {
			continue
		}
		if at := p.committed(txn, i); at > 0 {
			p.Done[ClaimRef{t, i}] = at
			continue
		}
		todo[i] = true
	}
	for i, wanted := range todo {
		_, owned := p.byNode[txn.Claims[i].Node]
		if wanted && (p.atomic[txn.Claims[i].Node] || txn.Mode == Atomic && (owned || p.scopesOwned(&txn.Claims[i]))) {
			p.Deferred = append(p.Deferred, t)
			return
		}
	}
	fit, conflicts := p.valid.judge(txn, func(i int) bool { return !todo[i] })
	p.Conflicts[t] = conflicts
	if len(fit) > 0 && txn.Mode == Atomic {
		p.write()
	}
	whole, member := p.whole(txn, fit), p.world(txn, fit)
	for _, a := range fit {
		c := &txn.Claims[a.claim]
		w, ok := p.writeFor(txn, c, a.scopes)
		if !ok {
			p.Deferred = append(p.Deferred, t) // what does not go into one write goes into the next plan's
			continue
		}
		for _, near := range a.witness { // its release bumps no fence, so only its record tells that it is there
			if g := (Guard{Key: near.Slot.PlacementKey(), Revision: near.Revision}); !slices.Contains(p.Writes[w].Guards, g) {
				p.Writes[w].Guards = append(p.Writes[w].Guards, g)
			}
		}
		p.spend(w, txn, c)
		p.claim(&p.Writes[w], txn, c, a.eviction, whole, member[c.Slot])
		endHolds(&p.Writes[w], p.valid.snapshot.Node(c.Node), txn, c)
		p.Claims[w] = append(p.Claims[w], ClaimRef{t, a.claim})
	}
}

// writeFor finds the write of a claim, or begins it: the one that owns its node, and each
// scope that it concerns. So all claims of a plan that one scope is about apply together or
// not at all, each having been judged on top of those before it. Not ok: it must wait.
func (p *planner) writeFor(txn *Txn, c *Claim, scopes []string) (w int, ok bool) {
	w, owned := p.byNode[c.Node]
	if !owned {
		w = -1
	}
	if txn.Mode == Atomic {
		w = len(p.Writes) - 1
	}
	for _, name := range scopes {
		of, owned := p.scopes[name]
		if p.stuck[name] || owned && w >= 0 && of != w {
			return p.stick(scopes)
		}
		if owned {
			w = of
		}
	}
	switch {
	case w < 0:
		p.write()
		w = len(p.Writes) - 1
	case txn.Mode == Incremental && p.full(w):
		return p.stick(scopes)
	}
	if !owned {
		p.byNode[c.Node], p.atomic[c.Node] = w, txn.Mode == Atomic
		p.Writes[w].Fences = append(p.Writes[w].Fences, FenceBump{Node: c.Node, Compared: p.valid.snapshot.Node(c.Node).Fence})
	}
	for _, name := range scopes {
		if _, owned := p.scopes[name]; !owned {
			if p.scopes == nil {
				p.scopes = map[string]int{}
			}
			p.scopes[name] = w
			p.Writes[w].Fences = append(p.Writes[w].Fences, FenceBump{Scope: name, Compared: p.valid.snapshot.scope(name)})
		}
	}
	return w, true
}

func (p *planner) stick(scopes []string) (int, bool) {
	for _, name := range scopes {
		if p.stuck == nil {
			p.stuck = map[string]bool{}
		}
		p.stuck[name] = true
	}
	return 0, false
}

// scopesOwned says whether a write of the plan owns a scope that a claim concerns.
func (p *planner) scopesOwned(c *Claim) bool {
	return slices.ContainsFunc(p.valid.scopesOf(c), func(name string) bool {
		_, owned := p.scopes[name]
		return owned || p.stuck[name]
	})
}

// write begins another write.
func (p *planner) write() {
	p.Writes = append(p.Writes, Write{Guards: append(make([]Guard, 0, 3), p.quotas), Records: make([]Record, 0, 1)})
	p.Claims = append(p.Claims, nil)
}

// full says whether a write takes no more claims: each needs a slot compared and, at
// worst, a job and two shares.
func (p *planner) full(w int) bool {
	guards := len(p.Writes[w].Guards) + len(p.Writes[w].Fences) - 1
	return len(p.Claims[w]) >= p.most || len(p.Claims[w]) > 0 && guards >= 2*p.most
}

// whole says whether the claims are the first ones of all slots of one job. Then each of
// them compares the range of all of the job's tasks as empty, which is stronger than to
// compare the slots, and a store need look at it only once.
func (p *planner) whole(txn *Txn, fit []accepted) bool {
	if len(fit) < 2 {
		return false
	}
	name := txn.Claims[fit[0].claim].Slot.JobName()
	job := p.valid.snapshot.Job(name)
	count := 0
	for _, g := range job.Record.GetSpec().GetGroups() {
		count += int(g.GetCount())
	}
	if len(job.Tasks) > 0 || len(fit) != count {
		return false
	}
	return !slices.ContainsFunc(fit, func(a accepted) bool {
		c := &txn.Claims[a.claim]
		return c.Attempt != 1 || c.Slot.JobName() != name
	})
}

// committed is the revision of the claim's placement if it stands already, or stood
// and has ended since.
func (p *planner) committed(txn *Txn, i int) Revision {
	c := &txn.Claims[i]
	t := p.valid.jobOf(c.Slot).Task(c.Slot)
	if t == nil {
		return 0
	}
	if t.Placement != nil && t.Placement.TxnID() == txn.ID {
		return t.Placement.Revision
	}
	for _, e := range t.Ended {
		if e.GetPlacement().GetTxn() == string(txn.ID) {
			return Revision(e.GetPlacementRevision())
		}
	}
	return 0
}

// claim adds one claim to its write.
func (p *planner) claim(w *Write, txn *Txn, c *Claim, e *eviction, whole bool, in member) {
	if name := c.Slot.JobName(); p.jobOf != name || p.job.Revision != c.JobRevision {
		p.jobOf, p.job = name, Guard{Key: JobKey(name), Revision: c.JobRevision}
		p.tasks.Key, p.tasks.End = TasksKeys(name)
	}
	newJob := !slices.Contains(w.Guards, p.job)
	if newJob {
		w.Guards = append(w.Guards, p.job)
	}
	placed := c.placement(txn)
	placed.Time = p.now
	placed.World, placed.WorldSize, placed.Rank = in.world, in.size, in.rank
	if !c.Ends.IsZero() {
		placed.LatestEnd = p.end(c.Ends)
	}
	key := c.Slot.PlacementKey()
	if !whole {
		w.Guards = append(w.Guards, Guard{Key: c.Slot.EndedKey(c.Attempt), End: key + "\x00"})
	} else if newJob {
		w.Guards = append(w.Guards, p.tasks)
	}
	w.Records = append(w.Records, Record{Key: key, Value: placed, Read: ReadGuarded})
	if e == nil {
		return
	}
	for _, v := range e.marked {
		w.Records = append(w.Records, Record{Key: v.Slot.PlacementKey(), Value: v.evictedBy(txn.ID).Record(), Read: v.Revision})
	}
	for _, v := range e.relied { // its release bumps no fence, so only its record tells that it is there
		w.Guards = append(w.Guards, Guard{Key: v.Slot.PlacementKey(), Revision: v.Revision})
	}
	for _, v := range e.idle {
		w.Guards = append(w.Guards, p.valid.snapshot.idleGuard(v))
	}
	for _, heir := range e.released {
		t := p.valid.snapshot.Job(heir.Slot.JobName()).Task(heir.Slot)
		if t.Status == nil { // it must not start meanwhile; with a status, its record is compared anyway
			w.Guards = append(w.Guards, Guard{Key: heir.Slot.StatusKey()})
		}
		w.Records = append(w.Records, ReleaseRecords(t, &ohmv1.Status{
			Slot: heir.Slot.Proto(), Attempt: heir.GetAttempt(), Txn: heir.GetTxn(), Node: heir.GetNode(),
			State: task.Stopped, Cause: task.Preempted, Ended: p.now,
		})...)
	}
}

// ReleaseRecords are the records of a release: the live placement of t goes, and the
// attempt stands as ended with its last status. It compares the placement's revision,
// so a late report of an earlier attempt releases nothing; while it is live, its end is not
// written. The status goes whatever its revision, also where the snapshot has none yet: it
// is this attempt's, and must not outlive it.
func ReleaseRecords(t *Task, last *ohmv1.Status) []Record {
	p := t.Placement
	ended := &ohmv1.Ended{Placement: p.Record(), PlacementRevision: int64(p.Revision), Status: last}
	return []Record{
		{Key: p.Slot.PlacementKey(), Read: p.Revision},
		{Key: p.Slot.EndedKey(int(p.GetAttempt())), Value: ended, Read: ReadGuarded},
		{Key: p.Slot.StatusKey(), Read: ReadGuarded},
	}
}

// placement is the record that the claim becomes.
func (c *Claim) placement(txn *Txn) *ohmv1.Placement {
	return &ohmv1.Placement{
		Slot: c.Slot.Proto(), Attempt: int32(c.Attempt), Node: string(c.Node),
		Resources: c.Resources, Gpus: c.GPUs, Ports: c.Ports, Precedence: int32(c.Precedence),
		Scheduler: txn.Scheduler, Instance: txn.Instance, Txn: string(txn.ID), Mode: txn.Mode,
		TxnClaims: int32(len(txn.Claims)), SnapshotRevision: int64(txn.Snapshot), JobRevision: int64(c.JobRevision),
		Victims: c.Victims,
	}
}

// countFences writes into every record that comes with a fence bump what was compared
// and how many records came with it.
func countFences(w *Write) {
	only := &ohmv1.Fence{Compared: int64(w.Fences[0].Compared)} // as of every incremental write
	of := func(string) *ohmv1.Fence { return only }
	var scopes []*ohmv1.ScopeFence // the same of all that come with them
	if len(w.Fences) > 1 {
		fences := make(map[string]*ohmv1.Fence, len(w.Fences))
		for _, f := range w.Fences {
			if f.Scope != "" {
				scopes = append(scopes, &ohmv1.ScopeFence{Scope: f.Scope, Compared: int64(f.Compared)})
				continue
			}
			fences[string(f.Node)] = &ohmv1.Fence{Compared: int64(f.Compared)}
		}
		of = func(node string) *ohmv1.Fence { return fences[node] }
	}
	for i, r := range w.Records {
		p, ok := r.Value.(*ohmv1.Placement)
		if !ok {
			continue
		}
		if r.Read != ReadGuarded { // a victim: its record is somebody else's
			p = proto.CloneOf(p)
			p.Scopes = nil
			w.Records[i].Value = p
		} else {
			p.Scopes = scopes
			for _, s := range scopes {
				s.Records++
			}
		}
		p.Fence = of(p.GetNode())
		p.Fence.Records++
	}
}
