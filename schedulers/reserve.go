package schedulers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// Who needs much room at once may wait for ever where others take bit by bit what comes
// free. So for the head of the queue, the most urgent job that has got no room for a while, the
// Runner reserves: it chooses the nodes where there will be room the earliest, by what the
// jobs that run there have declared, and writes holds of room that is not free yet
// (cellstate/reserve.go). They bind every scheduler, except strictly higher precedence, and whoever
// is over before the reservation starts. The policy decides as always: what is kept for the job
// is free to it alone.
//
// One instance has one reservation at a time, of one task or one gang, under a lease that it
// renews as long as the job is at the head and waits: who dies or stands still reserves
// nothing. Nothing is reserved for what could never run, nor for what the policy leaves
// although its room is there.

// reservation is room that is kept for the head of the queue.
type reservation struct {
	*starving
	at     cellstate.Revision // at which it was written; 0: it was not
	starts time.Time
	since  time.Time
	found  ahead
	took   time.Duration // to find it
	end    context.CancelFunc
	ended  chan struct{} // closed when nothing of it is under way or stands, as far as is known
}

// headEvery is how often the head of the queue is looked at: the queue may be long.
const headEvery = 100 * time.Millisecond

// unwantedFor is how long nothing is reserved for a job that did not want its reservation.
const unwantedFor = time.Minute

// reserveRoom keeps the reservation the one of the head of the queue, and says when to look again.
func (r *Runner) reserveRoom(ctx context.Context, s *cellstate.Snapshot, now time.Time) (wake time.Time) {
	if r.planning {
		select {
		case v := <-r.planned:
			r.takeReservation(v)
		default:
			return time.Time{}
		}
	}
	if now.Before(r.headAt) && len(r.queue.active) > 0 {
		return r.headAt
	}
	r.headAt = now.Add(headEvery)
	head, wake := r.queue.head(now, r.Times.Reserve)
	if r.reserved != nil {
		if head != nil && head.name == r.reserved.job.Name && r.stillReserved(s, head) {
			return earlier(earlier(wake, r.look(s, head, now)), now.Add(r.Times.Lease))
		}
		r.endReservation()
	}
	if head != nil {
		r.planReservation(ctx, s, head, now)
	}
	return wake
}

// head is the most urgent job for whose needs there has been no room for so long, or else
// when there will be one.
func (q *queue) head(now time.Time, patience time.Duration) (head *entry, wake time.Time) {
	maps.DeleteFunc(q.single, func(_ shape, until time.Time) bool { return !until.After(now) })
	for e := range q.walk {
		if e.waits.IsZero() || e.unwanted.After(now) || e.never() || e.stage == grows || e.job.Record.GetSpec().GetKind() == "system" {
			continue
		}
		if due := e.waits.Add(patience); due.After(now) {
			wake = earlier(wake, due)
			continue
		}
		if len(q.single) > 0 && !gang(e.job) {
			if until, single := q.single[shapeOf(e.needs)]; single {
				wake = earlier(wake, until)
				continue
			}
		}
		return e, wake
	}
	return nil, wake
}

// shape is what tasks have in common for which the end of one other makes room: nothing has
// to be gathered for them, and the order of the queue is enough.
type shape struct {
	cpu, memory, disk int64
	gpus, share       int32
	sameModel         bool
	least, part       int64 // bytes of a GPU's memory
	models            string
	constraints       int
}

func shapeOf(needs []reconcile.Need) shape {
	if len(needs) == 0 {
		return shape{}
	}
	g := needs[0].Group
	w, q := g.GetResources(), g.GetGpus()
	return shape{
		w.GetCpuMilli(), w.GetMemoryBytes(), w.GetDiskBytes(), q.GetCount(), q.GetShareMilli(), q.GetSameModel(),
		q.GetMemoryBytes(), q.GetShareBytes(), strings.Join(q.GetModels(), " "), len(g.GetConstraints()),
	}
}

// never says whether a group of the job could never run.
func (e *entry) never() bool {
	for _, r := range e.refusals {
		if r.never != "" {
			return true
		}
	}
	return false
}

// reservable is what may be reserved for the job: the first slot that found no room, or the gang;
// nil: nothing now.
func (e *entry) reservable(most int) *starving {
	if gang(e.job) {
		u := &starving{job: e.job, needs: e.needs, least: e.least()}
		if most > 0 && len(u.needs) > most {
			u.needs = u.needs[:most]
		}
		if u.least > len(u.needs) || len(u.needs) == 0 {
			return nil
		}
		return u
	}
	for i, n := range e.needs {
		if p, parked := e.parked[n.Slot]; parked && p.cost == (cellstate.Amounts{}) {
			return &starving{job: e.job, needs: e.needs[i : i+1], least: 1}
		}
	}
	return nil
}

// stillReserved says whether the reservation stands, on nodes that would do.
func (r *Runner) stillReserved(s *cellstate.Snapshot, e *entry) bool {
	v := r.reserved
	if e.job.Revision != v.job.Revision || s.Revision() < v.at {
		return s.Revision() < v.at
	}
	u := e.reservable(r.Store.Limits().Held())
	if u == nil || !slices.ContainsFunc(u.needs, func(n reconcile.Need) bool {
		return n.Slot == v.txn.Claims[0].Slot && n.Attempt == v.txn.Claims[0].Attempt
	}) {
		return false
	}
	for _, c := range v.txn.Claims {
		n := s.Node(c.Node)
		stands := n != nil && slices.ContainsFunc(n.Holds, func(h *cellstate.Hold) bool { return h.GetTxn() == string(v.txn.ID) })
		if !stands || !slices.ContainsFunc(v.needs, func(need reconcile.Need) bool { return need.Slot == c.Slot && holdsEmpty(n, need) }) {
			return false
		}
	}
	return true
}

// look ends a reservation whose room is there and which the policy did not take, and looks
// for a better one where nobody knows when it starts.
func (r *Runner) look(s *cellstate.Snapshot, e *entry, now time.Time) (wake time.Time) {
	v := r.reserved
	refused := true
	for _, n := range v.needs {
		p, parked := e.parked[n.Slot]
		refused = refused && parked && p.at >= max(v.at, s.RoomRevision())
	}
	if refused && r.nodesIdle() {
		trial := &starving{job: e.job, needs: v.needs, least: v.least, txn: &cellstate.Txn{ID: v.txn.ID, Scheduler: r.Name, Mode: v.txn.Mode}}
		nodes := map[cellstate.NodeName]bool{}
		var rows []*cellstate.Node
		for _, c := range v.txn.Claims {
			if !nodes[c.Node] {
				nodes[c.Node] = true
				rows = append(rows, s.Node(c.Node))
			}
		}
		if trial.fillAll(s, rows, func(*cellstate.Placement) bool { return false }, 0) {
			e.unwanted = now.Add(unwantedFor)
			r.endReservation()
			return now
		}
	}
	if v.starts.IsZero() {
		due := v.since.Add(r.Times.Sweep)
		if !due.After(now) {
			v.since = now
			better := &starving{job: v.job, needs: v.needs, least: v.least, txn: &cellstate.Txn{Mode: v.txn.Mode}}
			if a, ok := better.ahead(s, now, r.Store.Limits().Nodes); ok && !a.starts.IsZero() {
				r.endReservation()
				return now
			}
			due = now.Add(r.Times.Sweep)
		}
		return due
	}
	return time.Time{}
}

// nodesIdle says whether no node is kept off the policy because a request is under way.
func (r *Runner) nodesIdle() bool { return len(r.nodes) == 0 }

// planReservation has a place for the head's reservation found and written.
func (r *Runner) planReservation(ctx context.Context, s *cellstate.Snapshot, e *entry, now time.Time) {
	limits := r.Store.Limits()
	u := e.reservable(limits.Held())
	if u == nil {
		e.waits = time.Time{}
		return
	}
	mode := cellstate.Incremental
	if gang(u.job) {
		mode = cellstate.Atomic
	}
	u.txn = &cellstate.Txn{ID: cellstate.TxnID(r.ids.next(now)), Scheduler: r.Name, Instance: r.Instance, Mode: mode}
	inner, end := context.WithCancel(ctx)
	v := &reservation{starving: u, since: now, end: end, ended: make(chan struct{})}
	r.planning = true
	go func() {
		defer close(v.ended)
		began := time.Now()
		lease, err := r.writeReservation(inner, v, now, limits.Nodes)
		if err != nil && ctx.Err() == nil {
			r.noAnswer("reserving room", err)
		}
		v.took = time.Since(began)
		r.planned <- v
		if v.at > 0 {
			r.keepReserved(inner, lease)
		}
		r.giveBack(ctx, lease)
	}()
}

// keepReserved renews the lease of a reservation until ctx ends, the lease is lost, or the
// deciding loop has stood still for so long that the room must not wait for it any more.
func (r *Runner) keepReserved(ctx context.Context, l cellstate.Lease) {
	ctx, stop := context.WithCancel(ctx)
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		if err := r.Store.KeepAlive(ctx, l); err != nil {
			r.Log.Debug("the lease of a reservation", zap.Error(err))
		}
	}()
	defer func() {
		stop()
		<-lost
	}()
	look := time.NewTicker(r.Times.Lease)
	defer look.Stop()
	for {
		select {
		case <-lost:
			return
		case <-look.C:
			if r.Clock().UnixNano()-r.passed.Load() > int64(r.Times.Hold) {
				r.Log.Error("room is reserved, and the policy has not come back for it")
				return
			}
		}
	}
}

// reservationTries is how often a reservation is written anew because something has been
// placed on its nodes meanwhile.
const reservationTries = 8

// writeReservation finds a place for the reservation and writes it there.
func (r *Runner) writeReservation(ctx context.Context, v *reservation, now time.Time, most int) (cellstate.Lease, error) {
	var lease cellstate.Lease
	var least cellstate.Revision
	for range reservationTries {
		s, err := r.Cell.WaitSnapshot(ctx, least)
		if err != nil {
			return lease, err
		}
		a, ok := v.ahead(s, now, most)
		v.found = a
		if !ok || !a.gathers {
			break
		}
		if lease == 0 {
			if lease, err = r.Store.Grant(ctx, r.Times.Lease); err != nil {
				return lease, err
			}
		}
		w, conflicts := cellstate.PlanReservation(s, r.Clock(), v.txn, cellstate.Reservation{Starts: a.starts, Awaits: a.awaits, Lease: lease})
		if len(conflicts) > 0 {
			break
		}
		out, err := r.Store.Commit(ctx, w)
		if err != nil {
			return lease, err
		}
		if out.Applied[0] > 0 {
			v.at, v.starts = out.Applied[0], a.starts
			return lease, nil
		}
		least = max(out.Revision, least)
	}
	return lease, nil
}

// takeReservation takes in what has come of a plan.
func (r *Runner) takeReservation(v *reservation) {
	r.planning = false
	e := r.queue.jobs[v.job.Name]
	if v.at == 0 {
		v.end()
		<-v.ended
		if e != nil { // nothing has to be gathered for it, others have reserved the room, or it is lost: not at once again
			now := r.Clock()
			e.unwanted = now.Add(r.Times.Reserve / 2)
			if v.found.never {
				e.unwanted = now.Add(r.Times.Sweep)
			}
			if rest := now.Add(9 * v.took); rest.After(e.unwanted) { // of many nodes: a tenth of the time is enough for it
				e.unwanted = rest
			}
			if v.found.awaits != nil && !v.found.gathers {
				r.queue.single[shapeOf(v.needs)] = now.Add(r.Times.Sweep)
			}
			if v.found.never && e.job != nil && gang(e.job) {
				e.hopeless = fmt.Sprintf("if nothing else stood on the nodes that are there now, %d of %d tasks of the gang would have room", len(v.txn.Claims), v.least)
				e.say()
			}
		}
		return
	}
	r.reserved = v
	if e != nil && e.job != nil {
		e.reserved = v.text()
		e.say()
	}
	r.stats.add(func(c *Stats) { c.Reservations++ })
}

// text is the reservation for people.
func (v *reservation) text() string {
	nodes := map[cellstate.NodeName]bool{}
	for _, c := range v.txn.Claims {
		nodes[c.Node] = true
	}
	names := slices.Sorted(maps.Keys(nodes))
	text := "room is reserved on node " + string(names[0])
	if len(names) > 1 {
		text = fmt.Sprintf("room is reserved on %d nodes (%s, …)", len(names), names[0])
	}
	var last *cellstate.Placement
	ends := 0
	for _, name := range names {
		a := v.found.awaits[name]
		ends += a.Ends
		if a.Last != nil && (last == nil || last.GetLatestEnd() != nil && (a.Last.GetLatestEnd() == nil || last.GetLatestEnd().AsTime().Before(a.Last.GetLatestEnd().AsTime()))) {
			last = a.Last
		}
	}
	switch {
	case ends == 0:
		return text
	case v.starts.IsZero():
		return fmt.Sprintf("%s until %d tasks there have ended; of %s nobody knows when", text, ends, last.Slot.Task())
	}
	return fmt.Sprintf("%s until %d tasks there have ended, the last of them, %s, by %s", text, ends, last.Slot.Task(), v.starts.UTC().Format(time.RFC3339))
}

// endReservation gives the reserved room back.
func (r *Runner) endReservation() {
	v := r.reserved
	if v == nil {
		return
	}
	r.reserved = nil
	v.end()
	if e := r.queue.jobs[v.job.Name]; e != nil && e.job != nil {
		e.reserved = ""
		e.say()
	}
	r.ending = append(slices.DeleteFunc(r.ending, func(ended chan struct{}) bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}), v.ended)
}

// endReservations ends all that is under way, and waits for it.
func (r *Runner) endReservations() {
	if r.planning {
		r.takeReservation(<-r.planned)
	}
	r.endReservation()
	for _, ended := range r.ending {
		<-ended
	}
}
