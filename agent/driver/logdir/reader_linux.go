package logdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// reader goes from segment to segment. It is one goroutine's.
type reader struct {
	dir    *os.File
	stream string

	f     *os.File // nil: before the first segment that there will be
	start int64    // of f
	at    int64    // of the stream, where Read goes on
	whole bool     // f will not grow any more
}

// Open opens a stream of a task's logs.
func (d Dir) Open(id, stream string, from driver.From) (driver.Log, error) {
	if stream != segment.Stdout && stream != segment.Stderr {
		return nil, fmt.Errorf("a task has no stream %q", stream)
	}
	dir, err := d.openTask(id)
	if err != nil {
		return nil, err
	}
	r := &reader{dir: dir, stream: stream}
	for range rotations {
		if err = r.find(from); err == nil {
			return r, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNone) {
			break
		}
	}
	r.Close()
	return nil, err
}

// rotations is how often in a row a segment may be rotated away before it is opened.
const rotations = 20

var errNone = fmt.Errorf("it has no such log: %w", fs.ErrNotExist)

// Close gives up what is open.
func (r *reader) Close() error {
	if r.f != nil {
		r.f.Close()
	}
	return r.dir.Close()
}

// Offset is how many bytes of the stream come before what Read reads next.
func (r *reader) Offset() int64 { return r.at }

// find goes to where reading is to begin.
func (r *reader) find(from driver.From) error {
	starts, err := segment.List(r.dir, r.stream)
	if err != nil {
		return err
	}
	if len(starts) == 0 {
		return errNone
	}
	at := max(from.Offset, starts[0])
	if !from.Since.IsZero() {
		at = max(at, r.since(starts, from.Since))
	}
	if from.Tail != 0 {
		tail, err := r.tail(starts, at, max(from.Tail, 0))
		if err != nil {
			return err
		}
		at = max(at, tail)
	}
	i, found := slices.BinarySearch(starts, at)
	if !found {
		i--
	}
	if err := r.open(starts[i]); err != nil {
		return err
	}
	r.at = at
	_, err = r.f.Seek(at-r.start, io.SeekStart)
	return err
}

// open goes on with another segment, from its beginning.
func (r *reader) open(start int64) error {
	f, err := openPlain(r.dir, segment.Name(r.stream, start))
	if err != nil {
		return err
	}
	if r.f != nil {
		r.f.Close()
	}
	r.f, r.start, r.whole = f, start, false
	r.at = max(r.at, start)
	return nil
}

// Read reads what there is; io.EOF where that is all for now. Between two calls Offset may
// have grown by more than was read: so much is not there any more, or could not be written.
func (r *reader) Read(p []byte) (int, error) {
	for {
		n, err := r.f.Read(p)
		if n > 0 {
			r.at += int64(n)
			return n, nil
		}
		if err != nil && err != io.EOF || len(p) == 0 {
			return 0, err
		}
		if !r.whole {
			if r.whole, err = r.full(); err != nil || !r.whole {
				return 0, or(err, io.EOF)
			}
			continue // it may have grown just before
		}
		next, ok, err := r.next()
		if err != nil || !ok {
			return 0, or(err, io.EOF)
		}
		if err := r.open(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // then it was rotated away
			return 0, err
		}
	}
}

// full says that the segment will not grow any more.
func (r *reader) full() (bool, error) {
	var info unix.Stat_t
	if err := unix.Fstat(int(r.f.Fd()), &info); err != nil {
		return false, err
	}
	if segment.Sealed(info.Mode) {
		return true, nil
	}
	_, later, err := r.next() // after a crash of the machine
	return later, err
}

// next is the segment after this one, if there is one.
func (r *reader) next() (start int64, ok bool, err error) {
	starts, err := segment.List(r.dir, r.stream)
	if err != nil {
		return 0, false, err
	}
	for _, start := range starts {
		if start > r.start {
			return start, true, nil
		}
	}
	return 0, false, nil
}

func or(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
