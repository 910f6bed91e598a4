package logdir

import (
	"bytes"
	"io"
	"slices"
	"time"

	"github.com/ohmcell/ohm/agent/driver/segment"
)

// block is what is read at once where lines are looked for.
const block = 64 << 10

// mostMarks bounds what is read of a file of marks.
const mostMarks = 64 << 20

// since is where what was written at that time or later begins: at the beginning of a line,
// and up to MarkEvery too early. A time that nothing is known about is as if it were old.
func (r *reader) since(starts []int64, t time.Time) int64 {
	at := starts[0]
	for _, start := range starts {
		f, err := openPlain(r.dir, segment.Times(segment.Name(r.stream, start)))
		if err != nil {
			return at
		}
		data, err := io.ReadAll(io.LimitReader(f, mostMarks))
		f.Close()
		if err != nil {
			return at
		}
		for _, m := range segment.ReadMarks(data) {
			if m.Offset < start {
				return at // not what was written there
			}
			at = max(at, m.Offset)
			if m.Time.After(t.Add(-segment.MarkEvery)) {
				return r.lineOf(starts, at)
			}
		}
	}
	return r.end(starts) // all is older
}

// lineOf is where the line begins that goes on at a place, as far as that is near.
func (r *reader) lineOf(starts []int64, at int64) int64 {
	i, found := slices.BinarySearch(starts, at)
	if found {
		return at
	}
	start := starts[max(i-1, 0)]
	f, err := openPlain(r.dir, segment.Name(r.stream, start))
	if err != nil {
		return at
	}
	defer f.Close()
	from := max(start, at-block)
	before := make([]byte, at-from)
	n, err := f.ReadAt(before, from-start)
	if err != nil && err != io.EOF || n < len(before) {
		return at
	}
	if i := bytes.LastIndexByte(before, '\n'); i >= 0 || from == start {
		return from + int64(i) + 1
	}
	return at
}

// end is the end of the stream for now.
func (r *reader) end(starts []int64) int64 {
	last := starts[len(starts)-1]
	f, err := openPlain(r.dir, segment.Name(r.stream, last))
	if err != nil {
		return last
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return last
	}
	return last + info.Size()
}

// tail is where the last lines begin, not before a place. A line that has no end yet is one.
func (r *reader) tail(starts []int64, notBefore int64, lines int) (int64, error) {
	end := r.end(starts)
	if lines == 0 {
		return end, nil
	}
	buf := make([]byte, block)
	at := end
	for i := len(starts) - 1; i >= 0 && at > notBefore; i-- {
		start := starts[i]
		f, err := openPlain(r.dir, segment.Name(r.stream, start))
		if err != nil {
			return 0, err
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return 0, err
		}
		to := info.Size()
		if i == len(starts)-1 {
			to = min(to, end-start)
		}
		for to > 0 {
			from := max(0, to-block)
			part := buf[:to-from]
			if n, err := f.ReadAt(part, from); n < len(part) {
				f.Close()
				return 0, err
			}
			for j := len(part) - 1; j >= 0; j-- {
				if part[j] != '\n' || start+from+int64(j)+1 == end {
					continue
				}
				if lines--; lines == 0 {
					f.Close()
					return start + from + int64(j) + 1, nil
				}
			}
			to = from
		}
		f.Close()
		at = start
	}
	return starts[0], nil
}
