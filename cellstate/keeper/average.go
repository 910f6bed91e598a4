package keeper

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// lookEvery is how many times in a half-life the averages are brought forward.
const lookEvery = 40

// average keeps the averages of what namespaces have held of late, while any has a weight.
// looked is when they were last brought forward in this term: in the time before it, of which
// nobody knows, nothing is forgotten.
func (k *Keeper) average(ctx context.Context, lead cellstate.Guard, looked *time.Time, s *cellstate.Snapshot, now time.Time) (wake time.Time, err error) {
	meta, read := s.Meta(cellstate.AveragesMeta)
	rec := cellstate.Record{Key: cellstate.MetaKey(cellstate.AveragesMeta), Read: read}
	every := k.cfg.Limits.HalfLife / lookEvery
	switch fair := s.Fair(); {
	case fair == nil && meta == nil:
		*looked = time.Time{}
		return wake, nil
	case fair == nil: // nobody shares any more, and what they held means nothing to those who will
	case looked.IsZero():
		*looked = now
		return now.Add(every), nil
	case now.Before(looked.Add(every)):
		return looked.Add(every), nil
	default:
		averages, changed := fair.Averages(now.Sub(*looked), k.cfg.Limits.HalfLife)
		*looked = now
		if !changed {
			return now.Add(every), nil
		}
		rec.Value = &ohmv1.Meta{Time: timestamppb.New(now), Averages: averages}
	}
	_, err = k.commit(ctx, lead, []cellstate.Write{{Records: []cellstate.Record{rec}}})
	return now.Add(every), err
}
