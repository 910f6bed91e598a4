package cellstate

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Store is the durable shared truth of a cell.
//
// It knows records, guards and fences and nothing of what they mean: Plan turns
// transactions into Writes, so that every store keeps the same promises.
type Store interface {
	// Load returns the whole cell state at one revision, fences included.
	Load(ctx context.Context) (*Snapshot, error)

	// Changes yields what happened after a revision: whole revisions, in order, none
	// lost or repeated. A batch without changes says only how far the store has come.
	// It ends with an error (ErrCompacted: load again) or when ctx does.
	Changes(ctx context.Context, after Revision) iter.Seq2[Batch, error]

	// Progress asks the running Changes to yield the store's present revision soon,
	// also if nothing that is watched has changed.
	Progress(ctx context.Context) error

	// Commit applies each write alone, wholly or not at all, as far as possible in one
	// round trip; all guards are judged on the state before the request. No key and no
	// fence stands in two writes of one call. A write that does not apply is an outcome,
	// not an error; an error other than ErrUnknown says that nothing was applied.
	Commit(ctx context.Context, writes ...Write) (Outcome, error)

	// Limits says what one write may hold.
	Limits() Limits
}

// Leaser gives records a life that ends with their owner's.
type Leaser interface {
	// Grant begins a lease: without KeepAlive its records vanish after ttl.
	Grant(ctx context.Context, ttl time.Duration) (Lease, error)
	// KeepAlive renews the lease until ctx ends (nil) or the lease is lost (an error).
	KeepAlive(ctx context.Context, l Lease) error
	// Revoke ends the lease and removes its records at once.
	Revoke(ctx context.Context, l Lease) error
}

// Historian can tell the past.
type Historian interface {
	// History returns the oldest state that the store still has; Changes after its
	// revision leads to the present one, which is also returned.
	History(ctx context.Context) (oldest *Snapshot, present Revision, err error)
}

// Compactor can forget the past, so that a store does not grow for ever.
type Compactor interface {
	// Compact forgets what was before a revision; History begins there then. One that is
	// forgotten already is no error.
	Compact(ctx context.Context, at Revision) error
	// Size is what the store takes.
	Size(ctx context.Context) (Size, error)
}

// Carer can say how a store fares, and give a full one its room back.
type Carer interface {
	// Status asks each member of the store. One that does not answer is no error.
	Status(ctx context.Context) (*ohmv1.StoreStatusResponse, error)
	// Cure forgets all history, makes each member give back what is free in its file, and
	// ends the alarm of a full store. It tells each step that is done.
	Cure(ctx context.Context, told func(*ohmv1.StoreStep)) error
	// Defragment makes each member give back what is free in its file. A member does
	// nothing else meanwhile.
	Defragment(ctx context.Context, told func(*ohmv1.StoreStep)) error
}

// Size of a store, its history included, in bytes.
type Size struct {
	InUse int64 // by records and history
	File  int64 // on disk, with what has become free since
	Quota int64 // of File, at which the store takes no more writes; 0: none, or not known
}

// Of a store's quota, in percent: from when on people should know, and from when on they
// should hurry.
const (
	StoreFilling    = 70
	StoreNearlyFull = 85
)

// Filled is the part of the quota that the file takes, in percent.
func (s Size) Filled() int { return s.percent(s.File) }

// Needed is the part of the quota that records and history take, in percent.
func (s Size) Needed() int { return s.percent(s.InUse) }

func (s Size) percent(n int64) int {
	if s.Quota <= 0 {
		return 0
	}
	return int(float64(n) / float64(s.Quota) * 100)
}

// Lister says what stands in a store without saying what it is, so that a mirror can be
// held against it at little cost.
type Lister interface {
	// List returns the keys of [from, end) and their revisions as of a revision of the
	// store, by key, but at most so many; more says that these are not all. An empty end is
	// none. ErrCompacted: the revision is forgotten. ErrIncarnation: the store has never
	// come so far, or is another one.
	List(ctx context.Context, at Revision, from, end Key, most int) (page []KeyRevision, more bool, err error)
	// Fences returns the fences of all nodes as of a revision, with the same errors.
	Fences(ctx context.Context, at Revision) (map[NodeName]Revision, error)
}

// KeyRevision is a key and the revision of the record under it.
type KeyRevision struct {
	Key      Key
	Revision Revision
}

// Lease names a lease; 0 is none.
type Lease int64

// Limits of one write.
type Limits struct {
	Claims int // claims of one atomic transaction, by the bytes of a request
	Nodes  int // nodes of one atomic transaction: each has a fence, which is a condition of its own
	Batch  int // claims of incremental transactions on one node; more of them need another write
}

// Batch is what happened between two revisions of a store.
type Batch struct {
	Revision Revision // the store's, once all Changes are applied
	Changes  []Change // by revision, ascending
}

// Change is one record put or deleted.
type Change struct {
	Key      Key
	Value    proto.Message // nil: deleted; of a kind that this release does not know; or see Record
	Deleted  bool
	Revision Revision

	// Of a change that a Reader has made of a task's record: its key, taken apart, and a
	// placement as the row that it becomes, in place of Value.
	kind    Kind
	attempt int
	slot    Slot
	placed  *placedTask
}

// Record is the message that was put: Value, or what a Reader has read instead. Nil where
// nothing was, or what this release does not know.
func (c *Change) Record() proto.Message {
	if c.placed != nil {
		return c.placed.placement.Record()
	}
	return c.Value
}

// Write is a set of records that are written together, if all guards and fences hold.
type Write struct {
	Guards  []Guard
	Fences  []FenceBump
	Records []Record
}

// Record is one key's new value. Every record is compared with the revision at which
// it was read, so nothing is overwritten unseen.
type Record struct {
	Key   Key
	Value proto.Message // nil: delete
	Read  Revision      // the revision of the record when it was read; 0: it must not exist
	Lease Lease
}

// ReadGuarded as a Record's Read says that a guard of the same write covers its key, or
// another record's compare: that of a placement covers the status and the end of its attempt.
const ReadGuarded Revision = -1

// Guard is a condition on what is stored. With End empty it is about one key, else
// about every key in [Key, End).
type Guard struct {
	Key, End Key
	// Revision is what the key's mod revision must be; 0: nothing may exist there.
	Revision Revision
	// NotNewer makes it an upper bound: nothing there may have changed after Revision.
	NotNewer bool
	// Delete removes the keys of the range when the write applies.
	Delete bool
}

// FenceBump compares the fence of a node, or of a scope, with what was known of it, and
// bumps it.
type FenceBump struct {
	Node     NodeName
	Scope    string // of a rule that is wider than a node; then there is no Node
	Compared Revision
	Drop     bool // remove it: only a scope's, with the job that it is of
}

// Side is where the fence stands among the keys that nobody watches.
func (f FenceBump) Side() string {
	if f.Scope != "" {
		return SideScopes + f.Scope
	}
	return SideFences + string(f.Node)
}

// Where the fences of nodes and of scopes stand among the keys that nobody watches.
const (
	SideFences = "f/"
	SideScopes = "s/"
)

// Outcome of a Commit.
type Outcome struct {
	Revision Revision   // of the store when it had answered
	Applied  []Revision // by write: at which it applied; 0: it did not
}
