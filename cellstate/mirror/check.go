package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/cellstate"
)

// What no event contradicts is found by holding the snapshot against the store: a release
// that was lost, say, on a node that nobody claims any more. The store is asked for keys
// and revisions only, a page at a time, and as of the revision of a snapshot that is at
// hand: so whatever happens meanwhile, the two must be equal to the last key.

const (
	// DefaultCheck is the time in which the whole cell is checked once where nothing else is said.
	DefaultCheck = 10 * time.Minute
	// checkPage is how many keys are compared at once.
	checkPage = 10_000
	// firstPages is into how many parts the time is cut before it is known how many pages
	// the cell has.
	firstPages = 64
)

// checker compares the mirror's snapshots with the store, again and again.
type checker struct {
	mirror *Mirror
	store  cellstate.Lister
	page   int
	cuts   []cellstate.Key // where pages began in the last round, the first one left out
}

// check runs until ctx ends.
func (m *Mirror) check(ctx context.Context) {
	store, ok := m.store.(cellstate.Lister)
	if !ok || m.every <= 0 {
		return
	}
	c := &checker{mirror: m, store: store, page: checkPage}
	for pages := firstPages; ; {
		step := m.every / time.Duration(pages)
		var err error
		pages, err = c.round(ctx, func() bool { return after(ctx, step) })
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errDiffers), errors.Is(err, cellstate.ErrIncarnation):
			m.differs.Add(1)
			m.log.Warn("the snapshot is not what stands in the store", zap.Error(err))
			if m.reload(ctx, err) != nil {
				return
			}
		case err != nil: // the store is away, or history is gone: the watch finds that out, too
			m.log.Debug("the snapshot could not be checked", zap.Error(err))
		}
		if err != nil {
			pages = max(firstPages, len(c.cuts)+2)
		}
	}
}

func after(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// errDiffers: the snapshot and the store are not the same at one revision.
var errDiffers = errors.New("the check found a difference")

// round checks the whole cell and returns in how many pages. It pauses before each.
func (c *checker) round(ctx context.Context, pause func() bool) (pages int, err error) {
	var cuts []cellstate.Key // for the next round: as few as pages allow
	from, since := cellstate.Key(""), 0
	for ends := append(slices.Clone(c.cuts), ""); len(ends) > 0; pages++ {
		if !pause() {
			return pages, ctx.Err()
		}
		next, n, err := c.compare(ctx, from, ends[0])
		if err != nil {
			return pages, err
		}
		if since += n; since > c.page && from != "" {
			cuts, since = append(cuts, from), n
		}
		if from = next; next == ends[0] {
			ends = ends[1:]
		}
	}
	c.cuts = cuts
	if !pause() {
		return pages, ctx.Err()
	}
	return pages + 1, c.fences(ctx)
}

// compare holds one page from a key on against the snapshot. It returns where the next
// one begins, at the latest at end, and how many keys there were.
func (c *checker) compare(ctx context.Context, from, end cellstate.Key) (next cellstate.Key, keys int, err error) {
	s := c.mirror.Snapshot()
	if s == nil {
		return end, 0, nil
	}
	page, more, err := c.store.List(ctx, s.Revision(), from, end, c.page)
	if err != nil {
		return "", 0, fmt.Errorf("revision %d: %w", s.Revision(), err)
	}
	next = end
	if more && len(page) > 0 {
		next = page[len(page)-1].Key + "\x00"
	}
	if err := differ(s, page, from, next); err != nil {
		return "", 0, err
	}
	c.mirror.checked.Add(1)
	return next, len(page), nil
}

// differ holds a snapshot against all that stands in [from, end) at its revision.
func differ(s *cellstate.Snapshot, page []cellstate.KeyRevision, from, end cellstate.Key) error {
	for _, stored := range page {
		if stored.Key.Parse().Kind == cellstate.KindUnknown { // of another release
			continue
		}
		if at := s.RecordRevision(stored.Key); at != stored.Revision {
			return fmt.Errorf("%w at revision %d: %s stands at %d in the store, at %d in the snapshot", errDiffers, s.Revision(), stored.Key, stored.Revision, at)
		}
	}
	for key, at := range s.Records(from, end) {
		if _, stands := slices.BinarySearchFunc(page, key, byKey); !stands {
			return fmt.Errorf("%w at revision %d: %s stands at %d in the snapshot, and not in the store", errDiffers, s.Revision(), key, at)
		}
	}
	return nil
}

func byKey(s cellstate.KeyRevision, k cellstate.Key) int {
	return strings.Compare(string(s.Key), string(k))
}

// fences holds what is known of the nodes' fences against the store.
func (c *checker) fences(ctx context.Context) error {
	s := c.mirror.Snapshot()
	if s == nil {
		return nil
	}
	stored, err := c.store.Fences(ctx, s.Revision())
	if err != nil {
		return fmt.Errorf("revision %d: %w", s.Revision(), err)
	}
	for n := range s.Nodes() {
		if stored[n.Name] != n.Fence {
			return fmt.Errorf("%w at revision %d: the fence of node %s is %d in the store, %d in the snapshot", errDiffers, s.Revision(), n.Name, stored[n.Name], n.Fence)
		}
		delete(stored, n.Name)
	}
	for name, fence := range stored {
		return fmt.Errorf("%w at revision %d: the fence of node %s is %d in the store, none in the snapshot", errDiffers, s.Revision(), name, fence)
	}
	return nil
}
