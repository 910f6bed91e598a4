package etcdstore

import (
	"context"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/ohmcell/ohm/cellstate"
)

// condensed are the writes of a call as they are sent, of which those that have more
// conditions than a request may hold have fewer that say as much.
//
// Of a gang, each slot is such a condition: nothing exists from the attempt claimed to the
// placement. All of one job are replaced by a reading at a revision R, in which each
// holds, and by one condition on the whole range in which they lie: nothing there is newer
// than R. What stood in one of the small ranges when the request is judged would have
// stood there at R, too, or be newer. So nothing rests on what a mirror has seen, the
// range may hold ended attempts and slots of other versions, and a status that is written
// in between costs no more than another try.
type condensed struct {
	writes []cellstate.Write
	at     []int              // by write: its place in the call
	read   cellstate.Revision // of the latest reading; 0: nothing had to be read
}

// condense makes the writes fit as far as conditions go. One of which a condition does not
// hold is left out: it would not apply.
func (s *Store) condense(ctx context.Context, writes []cellstate.Write) (condensed, error) {
	c := condensed{writes: writes}
	for i := range writes {
		if w := &writes[i]; len(w.Guards)+len(w.Fences)+len(w.Records) <= s.width() {
			if c.at != nil {
				c.add(*w, i)
			}
			continue
		}
		if c.at == nil {
			c.writes, c.at = nil, make([]int, 0, len(writes))
			for k := range i {
				c.add(writes[k], k)
			}
		}
		w, holds, err := s.condenseSlots(ctx, writes[i], &c.read)
		if err != nil {
			return c, err
		}
		if holds {
			c.add(w, i)
		}
	}
	return c, nil
}

func (c *condensed) add(w cellstate.Write, i int) {
	c.writes, c.at = append(c.writes, w), append(c.at, i)
}

// outcome is that of the call, given that of what was sent.
func (c *condensed) outcome(sent cellstate.Outcome, writes int) cellstate.Outcome {
	if c.at == nil {
		return sent
	}
	out := cellstate.Outcome{Revision: max(sent.Revision, c.read), Applied: make([]cellstate.Revision, writes)}
	for i, at := range c.at {
		out.Applied[at] = sent.Applied[i]
	}
	return out
}

// condenseSlots replaces the conditions on slots, job by job.
func (s *Store) condenseSlots(ctx context.Context, w cellstate.Write, read *cellstate.Revision) (_ cellstate.Write, holds bool, err error) {
	byJob := map[cellstate.JobName][]cellstate.Guard{}
	var kept []cellstate.Guard
	for _, g := range w.Guards {
		if k := g.Key.Parse(); k.Kind == cellstate.KindEnded && g.End != "" && g.Revision == 0 && !g.NotNewer && !g.Delete {
			byJob[k.Slot.JobName()] = append(byJob[k.Slot.JobName()], g)
			continue
		}
		kept = append(kept, g)
	}
	for _, guards := range byJob {
		if len(guards) == 1 {
			kept = append(kept, guards[0])
			continue
		}
		whole, holds, err := s.readEmpty(ctx, guards)
		*read = max(*read, whole.Revision)
		if err != nil || !holds {
			return w, false, err
		}
		kept = append(kept, whole)
	}
	w.Guards = kept
	return w, true, nil
}

// readEmpty reads whether nothing exists in the ranges of the guards, and returns the
// condition that this is still so.
func (s *Store) readEmpty(ctx context.Context, guards []cellstate.Guard) (whole cellstate.Guard, empty bool, err error) {
	slices.SortFunc(guards, func(a, b cellstate.Guard) int { return strings.Compare(string(a.Key), string(b.Key)) })
	whole = cellstate.Guard{Key: guards[0].Key, NotNewer: true}
	for _, g := range guards {
		whole.End = max(whole.End, g.End)
	}
	empty = true
	next := 0 // the first range that does not end before the key
	at, err := s.readSpan(ctx, s.key(whole.Key).String(), s.key(whole.End).String(), 0, true, func(kv *mvccpb.KeyValue) error {
		k := cellstate.Key(kv.Key[len(s.prefix):])
		for next < len(guards) && guards[next].End <= k {
			next++
		}
		empty = empty && (next == len(guards) || k < guards[next].Key)
		return nil
	})
	whole.Revision = cellstate.Revision(at)
	return whole, empty, err
}
