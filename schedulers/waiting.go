package schedulers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// wordsAtOnce bounds the last words of one request to the store: they must not take
// the store's time from placements.
const wordsAtOnce = 100

// said is what was found to stand in the store already.
type said struct{ stored, word *ohmv1.Waiting }

// say brings the entry's last word up to what is known of its slots: those that are
// parked, and those that keep losing races. Its snapshot revision is the oldest on which
// one of them was refused.
func (e *entry) say() {
	defer e.queue.watch(e)
	e.word = nil
	waiting := map[string]int32{}
	var oldest cellstate.Revision
	count := func(s cellstate.Slot, at cellstate.Revision) {
		waiting[s.Group]++
		if oldest == 0 || at < oldest {
			oldest = at
		}
	}
	for s, p := range e.parked {
		count(s, p.at)
	}
	for s, l := range e.losses {
		if _, both := e.parked[s]; !both && l.times > 1 {
			count(s, l.revision)
		}
	}
	if len(waiting) == 0 {
		return
	}
	w := &ohmv1.Waiting{
		Namespace: e.job.Name.Namespace, Job: e.job.Name.Name, JobVersion: e.job.Record.GetVersion(),
		SnapshotRevision: int64(oldest),
	}
	var text []string
	for _, g := range e.job.Record.GetSpec().GetGroups() {
		n := waiting[g.GetName()]
		r, refused := e.refusals[g.GetName()]
		if n == 0 {
			if r.since = (time.Time{}); refused {
				e.refusals[g.GetName()] = r
			}
			continue
		}
		var since *timestamppb.Timestamp
		if !r.since.IsZero() {
			since = timestamppb.New(r.since)
		}
		w.Groups = append(w.Groups, &ohmv1.GroupWaiting{Since: since, Group: g.GetName(), Waiting: n, Nodes: int32(r.nodes), Reasons: r.reasons, NoVictims: r.rigid, NoVictimsCode: r.code, Never: r.never})
		text = append(text, groupText(g.GetName(), n, r))
	}
	note := ""
	if len(e.needs) > 0 && e.needs[0].Gang != nil {
		note = e.needs[0].Gang.Note
	}
	for _, more := range []string{note, e.problem, e.hopeless, e.lost, e.kept, e.reserved} {
		if more != "" {
			text = append(text, more)
		}
	}
	w.Message = strings.Join(text, "; ")
	e.word = w
}

// groupText is a refusal for people: "main: no room for 2 tasks: of 3 nodes 2 are short of cpu, 1 …".
func groupText(group string, waiting int32, r refusal) string {
	if r.quota != "" {
		return fmt.Sprintf("%s: %d %s %s", group, waiting, plural(waiting, "task"), r.quota)
	}
	text := fmt.Sprintf("%s: no node for %d %s", group, waiting, plural(waiting, "task"))
	if len(r.reasons) == 0 {
		if r.nodes == 0 {
			return text
		}
		return fmt.Sprintf("%s among %d", text, r.nodes)
	}
	var parts []string
	for _, why := range slices.SortedStableFunc(slices.Values(r.reasons), func(a, b *ohmv1.Reason) int {
		return cmp.Compare(b.GetNodes(), a.GetNodes())
	}) {
		part := fmt.Sprintf("%d %s", why.GetNodes(), reasonText(why))
		if why.GetDetail() != "" {
			part += " (" + why.GetDetail() + ")"
		}
		parts = append(parts, part)
	}
	text = fmt.Sprintf("%s: of %d %s %s", text, r.nodes, plural(int32(r.nodes), "node"), strings.Join(parts, ", "))
	if r.never != "" {
		text += "; it can never run on the nodes of this cell: " + r.never
	}
	if r.rigid != "" {
		text += "; nothing gives way: " + r.rigid
	}
	return text
}

func plural(n int32, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// reasonText is a reason as the end of "2 nodes …".
func reasonText(r *ohmv1.Reason) string {
	switch r.GetReason() {
	case string(cellstate.ReasonResources):
		return "short of " + r.GetDimension()
	case string(cellstate.ReasonDevice):
		return "without a free GPU"
	case string(cellstate.ReasonPort):
		if r.GetDimension() == cellstate.DynamicPorts {
			return "short of " + r.GetDimension()
		}
		return "with port " + r.GetDimension() + " taken"
	case string(cellstate.ReasonHold):
		return "holding room for another"
	case string(cellstate.ReasonIneligible):
		return "not eligible"
	case string(cellstate.ReasonDiskFull):
		return "with a full disk"
	case string(cellstate.ReasonNodeGone), "NotReady":
		return "not there"
	case string(cellstate.ReasonConstraint):
		return "excluded by the constraint on " + r.GetDimension()
	case string(cellstate.ReasonRule):
		return "kept off by " + r.GetDimension()
	case string(cellstate.ReasonCannot):
		return "cannot: " + r.GetDimension()
	case "Hollow":
		return "simulated"
	case ReasonUnexplained:
		return "without a reason"
	}
	return strings.TrimSpace(r.GetReason() + " " + r.GetDimension())
}

// speech is what has to be written of the last words: by job, the row that it compares.
type speech struct {
	name cellstate.JobName
	job  *cellstate.Job
	word *ohmv1.Waiting // nil: nothing waits any more
}

// unsaid lists the words that are not in the store as they should be, those of jobs
// that have none first. A word is also written again, although its content is the same,
// when the stored one was given before the last change that could have made room: "refused
// since then" and "not looked at since then" must not look alike.
func (q *queue) unsaid(s *cellstate.Snapshot) []speech {
	var out []speech
	for name, e := range q.watched {
		have, want := e.job.Waiting, e.word
		switch {
		case want == nil:
			if have != nil && len(e.needs) == 0 {
				out = append(out, speech{name, e.job, nil})
			}
			continue
		case have == nil:
		case have.GetSnapshotRevision() < int64(s.RoomRevision()) && want.GetSnapshotRevision() > have.GetSnapshotRevision():
		case e.said == said{have, want}:
			continue
		case sameWord(have, want):
			e.said = said{have, want}
			continue
		}
		out = append(out, speech{name, e.job, want})
	}
	slices.SortFunc(out, func(a, b speech) int {
		return cmp.Or(
			cmp.Compare(a.job.Waiting.GetSnapshotRevision(), b.job.Waiting.GetSnapshotRevision()),
			cmp.Compare(a.name.String(), b.name.String()))
	})
	return out
}

// sameWord says whether two words say the same, whenever they were given.
func sameWord(a, b *ohmv1.Waiting) bool {
	return a.GetJobVersion() == b.GetJobVersion() && a.GetMessage() == b.GetMessage() &&
		slices.EqualFunc(a.GetGroups(), b.GetGroups(), func(x, y *ohmv1.GroupWaiting) bool { return proto.Equal(x, y) })
}

// speak writes the last words that are due, many to a request, and says when more may be
// and whether it wrote: then there is a newer snapshot to go on with.
func (r *Runner) speak(ctx context.Context, s *cellstate.Snapshot, now time.Time) (wake time.Time, wrote bool) {
	if r.wordsAt.After(now) {
		return r.wordsAt, false
	}
	due := append(r.leftover(s), r.queue.unsaid(s)...)
	if len(due) == 0 {
		return time.Time{}, false
	}
	r.wordsAt = now.Add(r.Times.Words)
	var writes []cellstate.Write
	for _, d := range due[:min(len(due), wordsAtOnce)] {
		rec := cellstate.Record{Key: cellstate.WaitingKey(d.name), Read: d.job.WaitingRevision}
		if d.word != nil {
			w := proto.CloneOf(d.word)
			w.Scheduler, w.Instance, w.Time = r.Name, r.Instance, timestamppb.New(now)
			rec.Value = w
		}
		writes = append(writes, cellstate.Write{Records: []cellstate.Record{rec}})
	}
	out, err := r.Store.Commit(ctx, writes...)
	if err == nil { // one that was refused is compared again with what stands there then
		_, err = r.Cell.WaitSnapshot(ctx, out.Revision)
	}
	if err != nil && ctx.Err() == nil {
		r.failed(ctx, "writing last words", err)
	}
	return r.wordsAt, true
}

// leftover are the words on jobs that are over or belong to others now, and that nobody
// else will take back.
func (r *Runner) leftover(s *cellstate.Snapshot) (out []speech) {
	for name := range r.gone {
		j := s.Job(name)
		if j == nil || j.Waiting == nil || j.Waiting.GetScheduler() != r.Name || (j.Live() && j.Record.GetSpec().GetScheduler() == r.Name) {
			delete(r.gone, name)
			continue
		}
		out = append(out, speech{name, j, nil})
	}
	return out
}
