package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/ohmcell/ohm/cellstate"
)

// Store is what a recorder stands before.
type Store interface {
	Load(ctx context.Context) (*cellstate.Snapshot, error)
	Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error)
}

// Recorder passes commits and loads on to a store and writes down each one before it is sent and
// what was said of it after: a line each, so that the record of a process that is killed
// is complete.
type Recorder struct {
	store  Store
	client string

	mu  sync.Mutex
	out io.Writer
	n   int
	bad error // the first line that could not be written
}

// NewRecorder records what client, a name unique in the history, asks of store.
func NewRecorder(store Store, client string, out io.Writer) *Recorder {
	return &Recorder{store: store, client: client, out: out}
}

// Commit records the commit if it does anything to a task.
func (r *Recorder) Commit(ctx context.Context, writes ...cellstate.Write) (cellstate.Outcome, error) {
	op := &Op{Writes: make([]Write, len(writes))}
	some := false
	for i, w := range writes {
		op.Writes[i] = DeedsOf(w.Records)
		some = some || len(op.Writes[i]) > 0
	}
	if !some {
		return r.store.Commit(ctx, writes...)
	}
	if err := r.begin(op); err != nil {
		return cellstate.Outcome{}, err
	}
	out, err := r.store.Commit(ctx, writes...)
	op.Fate, op.Applied = Done, out.Applied
	switch {
	case errors.Is(err, cellstate.ErrUnknown):
		op.Fate = Unknown
	case err != nil:
		op.Fate = Nothing
	}
	r.end(op, err)
	return out, err
}

// Load records what was read.
func (r *Recorder) Load(ctx context.Context) (*cellstate.Snapshot, error) {
	op := &Op{Read: &Read{}}
	if err := r.begin(op); err != nil {
		return nil, err
	}
	s, err := r.store.Load(ctx)
	op.Fate = Nothing
	if err == nil {
		op.Fate, op.Read = Done, ReadOf(s)
	}
	r.end(op, err)
	return s, err
}

// Note writes down how many claims of a transaction met a conflict.
func (r *Recorder) Note(conflicts int) {
	if conflicts == 0 {
		return
	}
	op := &Op{Conflicts: conflicts}
	if r.begin(op) == nil {
		op.Fate = Done
		r.end(op, nil)
	}
}

func (r *Recorder) begin(op *Op) error {
	r.mu.Lock()
	r.n++
	op.ID, op.Client = fmt.Sprintf("%s/%d", r.client, r.n), r.client
	r.mu.Unlock()
	op.Begin = Now()
	return r.write(op)
}

func (r *Recorder) end(op *Op, err error) {
	op.End = Now()
	if err != nil {
		op.Error = err.Error()
	}
	_ = r.write(op) // what is missing then is an operation that never came back
}

func (r *Recorder) write(op *Op) error {
	line, err := json.Marshal(op)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bad == nil {
		_, r.bad = r.out.Write(append(line, '\n'))
	}
	if r.bad != nil {
		return fmt.Errorf("the history cannot be written: %w", r.bad)
	}
	return nil
}

// Parse reads what recorders wrote; the second line of an operation replaces the first. A
// last line that is torn is of a process that was killed while it wrote.
func Parse(in io.Reader) ([]*Op, error) {
	var all []*Op
	index := map[string]int{}
	for d := json.NewDecoder(in); ; {
		op := new(Op)
		switch err := d.Decode(op); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("operation %d of a history: %w", len(all)+1, err)
		}
		if i, ok := index[op.ID]; ok {
			all[i] = op
			continue
		}
		index[op.ID] = len(all)
		all = append(all, op)
	}
}
