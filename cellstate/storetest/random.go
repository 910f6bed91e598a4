package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/cellstate/audit"
	"github.com/ohmcell/ohm/cellstate/celltest"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Random plays a random history into an empty store, one step after the other, so that
// it can be replayed and made smaller: two schedulers, each with its own snapshot, which
// lags and now and then misses an event, and whose requests may come late or twice;
// agents that report and release, late ones too; users who submit, change, stop and
// remove jobs, with rules between their tasks; operators who resize and close nodes; holds for those who starve. At the end both snapshots agree
// with the store, and audit finds no promise broken at any revision.
func Random(t *rapid.T, store cellstate.Store) {
	ctx := context.Background()
	w := &world{T: t, ctx: ctx, store: store, cell: celltest.New(t, store), lossy: rapid.Bool().Draw(t, "lossy")}
	w.start = w.cell.Snapshot()
	for i := range nodes {
		name := fmt.Sprint("n", i)
		w.cell.Node(celltest.Nodes(name).Draw(t, "node"))
		w.cell.Put(cellstate.Record{Key: cellstate.AliveKey(cellstate.NodeName(name)), Value: &ohmv1.Alive{Node: name}}) // domains of a spread are of live nodes
	}
	for i := range jobs {
		w.submit(i)
	}
	for range 2 {
		w.views = append(w.views, &view{snapshot: w.cell.Snapshot()})
	}
	// The first kinds of steps are the most frequent, and what a failure shrinks to.
	steps := []func(*view){w.commit, w.follow, w.commit, w.follow, w.commit, w.follow, w.commit, w.follow, w.sendLate, w.report, w.release, w.release, w.giveUp, w.user, w.operator, w.starve}
	for range length {
		step := rapid.SampledFrom(steps).Draw(t, "step")
		step(rapid.SampledFrom(w.views).Draw(t, "view"))
	}
	w.finish()
}

// The size of a random history: small enough that schedulers meet.
const nodes, jobs, length = 3, 4, 100

type world struct {
	*rapid.T
	ctx   context.Context
	store cellstate.Store
	cell  *celltest.Cell
	start *cellstate.Snapshot
	views []*view
	txns  int
	// lossy histories may lose the event of any placement, and have no rules that are about
	// tasks which were placed before there was a rule: the fence of a node tells whoever claims
	// that node of what was lost, and that of a scope whoever the rule concerns, but what was
	// placed on another node without a scope is told by nothing but the mirror's check. Nor do
	// they spread tasks: an end bumps no fence, so who has lost its event takes a domain that
	// has become the emptiest for one that has as many as before.
	lossy bool
}

// view is one scheduler: what it has seen, and its requests that are still on their way.
type view struct {
	snapshot *cellstate.Snapshot
	missed   bool // an event, of which it does not know yet
	late     [][]cellstate.Write
	last     []*cellstate.Txn // of which the reply may be lost
}

// commit plans a random transaction on what the scheduler has seen; the request is sent at once,
// later, or both.
func (w *world) commit(v *view) {
	if len(slices.Collect(v.snapshot.Jobs())) == 0 {
		return
	}
	txns := v.last
	if rapid.IntRange(0, 5).Draw(w.T, "again") < 5 {
		txns = nil
	}
	for range rapid.IntRange(1, 2).Draw(w.T, "txns") {
		w.txns++
		txns = append(txns, celltest.Txns(v.snapshot, cellstate.TxnID(fmt.Sprint("txn-", w.txns))).Draw(w.T, "txn"))
	}
	plan := cellstate.MakePlan(v.snapshot, time.Unix(int64(w.txns), 0), 1000, txns, func(cellstate.ClaimRef) bool { return false })
	v.last = txns
	how := rapid.SampledFrom([]string{"now", "now", "later", "twice"}).Draw(w.T, "sent")
	if how != "later" {
		w.send(plan.Writes)
	}
	if how != "now" {
		v.late = append(v.late, plan.Writes)
	}
}

func (w *world) send(writes []cellstate.Write) {
	if _, err := w.store.Commit(w.ctx, writes...); err != nil {
		w.Fatalf("commit: %v", err)
	}
}

func (w *world) sendLate(v *view) {
	if len(v.late) > 0 {
		w.send(v.late[0])
		v.late = v.late[1:]
	}
}

// follow moves the scheduler's snapshot on by some revisions, and loses an event now and then.
func (w *world) follow(v *view) {
	batches := w.since(v.snapshot.Revision())
	if len(batches) == 0 {
		return
	}
	n := rapid.IntRange(1, len(batches)).Draw(w.T, "revisions")
	lose := rapid.IntRange(0, 4*n).Draw(w.T, "lose")
	for i, b := range batches[:n] {
		if i == lose && b.Changes[0].Key.Parse().Kind == cellstate.KindPlacement &&
			(w.lossy || len(scopesOf(b.Changes[0])) > 0) {
			b.Changes, v.missed = b.Changes[1:], true
		}
		w.apply(v, b)
	}
}

func scopesOf(c cellstate.Change) []*ohmv1.ScopeFence {
	p, _ := c.Record().(*ohmv1.Placement)
	return p.GetScopes()
}

func (w *world) apply(v *view, b cellstate.Batch) {
	if b.Revision <= v.snapshot.Revision() { // it has loaded again since
		return
	}
	next, gaps, err := v.snapshot.Apply(b)
	if err != nil {
		w.Fatalf("apply: %v", err)
	}
	if v.snapshot = next; len(gaps) > 0 {
		if !v.missed {
			w.Fatalf("revision %d: a gap at %v, but nothing was lost", b.Revision, gaps)
		}
		v.snapshot, v.missed = w.cell.Snapshot(), false
	}
}

// since reads the batches after a revision, one for each revision.
func (w *world) since(after cellstate.Revision) []cellstate.Batch {
	now := w.cell.Snapshot().Revision()
	if now <= after {
		return nil
	}
	var out []cellstate.Batch
	for b, err := range w.store.Changes(w.ctx, after) {
		if err != nil {
			w.Fatalf("changes: %v", err)
		}
		for _, c := range b.Changes {
			if len(out) == 0 || out[len(out)-1].Revision != c.Revision {
				out = append(out, cellstate.Batch{Revision: c.Revision})
			}
			last := &out[len(out)-1]
			last.Changes = append(last.Changes, c)
		}
		if b.Revision >= now {
			return out
		}
	}
	return out
}

// placement is a random live placement that the view knows of, with its task; nil if there is none.
func (w *world) placement(v *view) *cellstate.Task {
	var live []*cellstate.Task
	for j := range v.snapshot.Jobs() {
		for _, t := range j.Tasks {
			if t.Placement != nil {
				live = append(live, t)
			}
		}
	}
	if len(live) == 0 {
		return nil
	}
	return rapid.SampledFrom(live).Draw(w.T, "task")
}

// report writes a status as an agent does whose server has the view's snapshot.
func (w *world) report(v *view) {
	if t := w.placement(v); t != nil {
		w.send([]cellstate.Write{{
			Guards:  []cellstate.Guard{{Key: t.Slot.PlacementKey(), Revision: t.Placement.Revision}},
			Records: []cellstate.Record{{Key: t.Slot.StatusKey(), Read: t.StatusRevision, Value: celltest.StatusOf(t.Placement, task.Running)}},
		}})
	}
}

func (w *world) release(v *view) {
	if t := w.placement(v); t != nil {
		w.send([]cellstate.Write{{Records: cellstate.ReleaseRecords(t, celltest.StatusOf(t.Placement, task.Failed))}})
	}
}

// giveUp drains one task, as the keeper does that has the view's snapshot.
func (w *world) giveUp(v *view) {
	t := w.placement(v)
	if t == nil || t.Placement.GetDrained() || !v.snapshot.Bound(t.Placement) {
		return
	}
	if b, _ := v.snapshot.Budget(v.snapshot.Job(t.Slot.JobName()), t.Slot.Group); b.Left() > 0 || !v.snapshot.Up(t.Placement) {
		w.send([]cellstate.Write{cellstate.GiveUp(v.snapshot, b, []*cellstate.Placement{t.Placement})})
	}
}

// submit submits job i or a new version of it. Each job has a precedence of its own, so
// that evictions have chains, and all but the last belong to one scheduler.
func (w *world) submit(i int) {
	j := celltest.Jobs(fmt.Sprint("j", i)).Draw(w.T, "job")
	j.Precedence, j.Kind = 100*i, "batch"
	if i == jobs-1 {
		j.Kind = "service"
	}
	if w.lossy {
		j.Affinity, j.Spread = nil, nil
		if len(j.AntiAffinity) > 0 && j.AntiAffinity[0].GetWithin() != cellstate.NodeLabel {
			j.AntiAffinity = nil
		}
	}
	w.cell.Job(j)
}

// user submits, changes, stops or removes a job.
func (w *world) user(*view) {
	i := rapid.IntRange(0, jobs-1).Draw(w.T, "job")
	j := w.cell.Snapshot().Job(celltest.Name(fmt.Sprint("j", i)))
	switch {
	case j == nil:
		w.submit(i)
	case rapid.Bool().Draw(w.T, "change"):
		w.submit(i)
	case j.Live():
		w.cell.Mark(j.Name, func(j *ohmv1.Job) { j.Stopped = true })
	case !slices.ContainsFunc(j.Tasks, func(t *cellstate.Task) bool { return t.Placement != nil }):
		from, end := cellstate.TasksKeys(j.Name)
		w.cell.Write(cellstate.Write{
			Guards:  []cellstate.Guard{{Key: from, End: end, Revision: w.cell.Snapshot().Revision(), NotNewer: true, Delete: true}},
			Fences:  cellstate.DropScopes(w.cell.Snapshot(), j.Name),
			Records: []cellstate.Record{{Key: cellstate.JobKey(j.Name), Read: j.Revision}},
		})
	}
}

// operator changes a node, on what the view knows of it, which may be old.
func (w *world) operator(v *view) {
	name := cellstate.NodeName(fmt.Sprint("n", rapid.IntRange(0, nodes-1).Draw(w.T, "node")))
	n := v.snapshot.Node(name)
	rec := cellstate.Record{Key: cellstate.IntentKey(name), Read: n.IntentRevision, Value: &ohmv1.Intent{Node: string(name), Ineligible: rapid.IntRange(0, 3).Draw(w.T, "ineligible") == 3}}
	if rapid.Bool().Draw(w.T, "facts") {
		rec = cellstate.Record{Key: cellstate.NodeKey(name), Read: n.FactsRevision, Value: celltest.Nodes(string(name)).Draw(w.T, "facts").Proto()}
	}
	write := cellstate.NodeWrite(name, n, rec)
	if cellstate.Moves(n, rec.Value) {
		write.Records = append(write.Records, cellstate.Barrier(v.snapshot, string(name)))
	}
	w.send([]cellstate.Write{write})
}

// starve places holds for a random transaction, or ends some that stand, as their lease
// would. The transaction is the next that the scheduler commits again.
func (w *world) starve(v *view) {
	if rapid.IntRange(0, 3).Draw(w.T, "lease ends") == 0 {
		for n := range w.cell.Snapshot().Nodes() {
			for _, h := range n.Holds {
				w.send([]cellstate.Write{{Records: []cellstate.Record{{Key: cellstate.HoldKey(n.Name, cellstate.TxnID(h.GetTxn())), Read: h.Revision}}}})
			}
		}
		return
	}
	if len(slices.Collect(v.snapshot.Jobs())) == 0 {
		return
	}
	w.txns++
	txn := celltest.Txns(v.snapshot, cellstate.TxnID(fmt.Sprint("txn-", w.txns))).Draw(w.T, "txn")
	plan := func() (cellstate.Write, []cellstate.Conflict) {
		return cellstate.PlanHold(v.snapshot, time.Unix(int64(w.txns), 0), txn, 0)
	}
	if rapid.Bool().Draw(w.T, "reserves") {
		r := cellstate.Reservation{}
		if starts := rapid.Int64Range(0, 3).Draw(w.T, "starts"); starts > 0 {
			r.Starts = time.Unix(starts, 0)
		}
		plan = func() (cellstate.Write, []cellstate.Conflict) {
			return cellstate.PlanReservation(v.snapshot, time.Unix(int64(w.txns), 0), txn, r)
		}
	}
	write, conflicts := plan()
	if len(conflicts) == 0 {
		w.send([]cellstate.Write{write})
		v.last = []*cellstate.Txn{txn}
	}
}

// finish lets both views catch up and compares them and the whole history with what
// must hold.
func (w *world) finish() {
	stored := w.cell.Snapshot()
	for _, v := range w.views {
		for _, b := range w.since(v.snapshot.Revision()) {
			w.apply(v, b)
		}
		for n := range stored.Nodes() {
			got := v.snapshot.Node(n.Name)
			same := slices.EqualFunc(got.Placements(), n.Placements(), func(a, b *cellstate.Placement) bool {
				return a.Revision == b.Revision && proto.Equal(a.Record(), b.Record())
			})
			if !v.missed && (got.Fence != n.Fence || !same) {
				w.Fatalf("node %s: seen %v, stored %v", n.Name, got, n)
			}
		}
	}
	a := audit.New(w.start)
	for _, b := range w.since(w.start.Revision()) {
		if err := a.Observe(b); err != nil {
			w.Fatalf("audit: %v", err)
		}
	}
	if report := a.Report(); len(report.GetViolations()) > 0 {
		w.Fatalf("%v", report.GetViolations())
	}
}
