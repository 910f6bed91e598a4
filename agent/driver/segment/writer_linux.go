package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Writer appends to a stream. It is one goroutine's.
type Writer struct {
	dir    *os.File // its lock is the stream's, too
	stream string
	limits Limits

	f      *os.File // the segment; nil: to be opened
	start  int64
	times  *os.File // nil: there is none, so nobody will know when
	marks  int64    // bytes that this process has written to it
	marked time.Time
	inLine bool  // what was last written did not end a line
	lost   int64 // bytes that could not be written, after the end of the last segment
}

// Open makes a writer that goes on with a stream in a folder, or begins it.
func Open(dir, stream string, limits Limits) (*Writer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	w := &Writer{dir: d, stream: stream, limits: limits.WithDefaults()}
	unlock, err := w.hold()
	if err == nil {
		err = w.ready()
		unlock()
	}
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("log %s in %s: %w", stream, dir, err)
	}
	return w, nil
}

// Close gives the files back. What was lost at the very end is told by one last segment,
// which is empty.
func (w *Writer) Close() {
	if w.lost > 0 {
		if unlock, err := w.hold(); err == nil {
			_ = w.ready() // the disk is as full as it was
			unlock()
		}
	}
	w.letGo()
	w.dir.Close()
}

// Write appends what it can, and counts the rest as lost. It never says that it failed, as
// nobody could do anything about it but wait.
func (w *Writer) Write(p []byte) {
	unlock, err := w.hold()
	if err != nil {
		w.lost += int64(len(p))
		return
	}
	defer unlock()
	for len(p) > 0 {
		if err := w.ready(); err != nil {
			w.lost += int64(len(p))
			return
		}
		n, err := w.room(p)
		if err == nil && n == 0 {
			err = w.seal()
			if err == nil {
				continue
			}
		}
		if err == nil {
			w.mark()
			n, err = w.f.Write(p[:n])
		}
		if n > 0 {
			w.inLine = p[n-1] != '\n'
			p = p[n:]
		}
		if err != nil {
			w.lost += int64(len(p))
			return
		}
	}
}

// hold takes the folder's lock, which every process that writes below it does only for one
// write.
func (w *Writer) hold() (unlock func(), err error) {
	fd := int(w.dir.Fd())
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Flock(fd, unix.LOCK_EX)
	}
	return func() { _ = unix.Flock(fd, unix.LOCK_UN) }, err
}

// ready has a segment open to which more may be written: the newest, or the next one where
// that is sealed, or where something was lost after it. The lock is held.
func (w *Writer) ready() error {
	if w.f != nil {
		info, err := w.look()
		if err == nil && !Sealed(info.Mode) && w.lost == 0 {
			return nil
		}
		w.letGo()
	}
	starts, err := List(w.dir, w.stream)
	if err != nil {
		return err
	}
	if len(starts) == 0 {
		return w.begin(w.lost)
	}
	newest := starts[len(starts)-1]
	err = w.open(newest)
	if odd(err) {
		return w.begin(newest + w.lost + 1)
	}
	if err != nil {
		return err
	}
	info, err := w.look()
	if err != nil || !Sealed(info.Mode) && w.lost == 0 {
		return err
	}
	if err := w.seal(); err != nil {
		return err
	}
	if info.Size == 0 { // the disk was full: no others make room for what holds nothing
		w.remove(newest)
	}
	w.letGo()
	return w.begin(newest + info.Size + w.lost)
}

// errOdd is what was found under the name of a segment and is none.
var errOdd = errors.New("no plain file with one name")

// odd says of an error that a task has put something in a segment's place. It is left there.
func odd(err error) bool {
	return errors.Is(err, errOdd) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV)
}

func (w *Writer) look() (info unix.Stat_t, err error) {
	err = unix.Fstat(int(w.f.Fd()), &info)
	return info, err
}

// open opens a segment that is there.
func (w *Writer) open(start int64) error {
	name := Name(w.stream, start)
	f, err := w.openAt(name, unix.O_RDWR|unix.O_APPEND, 0)
	if err != nil {
		return err
	}
	w.f, w.start = f, start
	info, err := w.look()
	if err == nil && !Plain(&info) {
		err = fmt.Errorf("%s: %w", name, errOdd)
	}
	if err != nil {
		w.letGo()
		return err
	}
	last := make([]byte, 1)
	n, _ := f.ReadAt(last, info.Size-1)
	w.inLine = n > 0 && last[0] != '\n'
	w.openTimes(0)
	return nil
}

// begin makes the next segment, and removes the oldest where there are too many. What was
// lost before it is told by its name.
func (w *Writer) begin(start int64) error {
	f, err := w.openAt(Name(w.stream, start), unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.f, w.start, w.lost, w.inLine = f, start, 0, false
	w.openTimes(unix.O_CREAT)
	starts, err := List(w.dir, w.stream)
	if err != nil {
		return nil // another time
	}
	for ; len(starts) > w.limits.Files; starts = starts[1:] {
		w.remove(starts[0])
	}
	return nil
}

// remove removes a segment, if it can; else the next time that there are too many.
func (w *Writer) remove(start int64) {
	name := Name(w.stream, start)
	for _, name := range []string{name, Times(name)} {
		_ = unix.Unlinkat(int(w.dir.Fd()), name, 0)
	}
}

func (w *Writer) openTimes(how int) {
	w.times, _ = w.openAt(Times(Name(w.stream, w.start)), unix.O_WRONLY|unix.O_APPEND|how, 0o600)
	w.marks, w.marked = 0, time.Time{}
	if w.times == nil {
		return
	}
	var info unix.Stat_t
	if unix.Fstat(int(w.times.Fd()), &info) != nil || !Plain(&info) {
		w.times.Close()
		w.times = nil
	}
}

func (w *Writer) openAt(name string, how int, mode uint32) (*os.File, error) {
	fd, err := unix.Openat(int(w.dir.Fd()), name, how|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, mode)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (w *Writer) letGo() {
	for _, f := range []*os.File{w.f, w.times} {
		if f != nil {
			f.Close()
		}
	}
	w.f, w.times = nil, nil
}

// seal says that nothing is written to the segment any more (S1).
func (w *Writer) seal() error { return unix.Fchmod(int(w.f.Fd()), 0o400) }

// room is how much of p the segment takes; 0: it is full. It ends with a line, for which it
// may grow by an eighth more than it should; no line that is longer than that is spared.
func (w *Writer) room(p []byte) (int, error) {
	info, err := w.look()
	if err != nil {
		return 0, err
	}
	more := w.limits.Bytes / 8
	free := w.limits.Bytes - info.Size
	if w.marks >= more {
		free = min(free, 0)
	}
	if int64(len(p)) <= free {
		return len(p), nil
	}
	if free > 0 {
		if n := bytes.LastIndexByte(p[:free], '\n') + 1; n > 0 {
			return n, nil
		}
	}
	most := int(min(free+more, int64(len(p))))
	if info.Size > 0 && (!w.inLine || most <= 0) {
		return 0, nil
	}
	most = max(most, 1)
	if n := bytes.IndexByte(p[:most], '\n') + 1; n > 0 {
		return n, nil
	}
	return most, nil
}

// mark notes the time, now and then.
func (w *Writer) mark() {
	now := time.Now()
	if w.times == nil || now.Sub(w.marked) < MarkEvery && now.After(w.marked) {
		return
	}
	info, err := w.look()
	if err != nil {
		return
	}
	b := make([]byte, 0, MarkSize)
	b = binary.BigEndian.AppendUint64(b, uint64(now.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, uint64(w.start+info.Size))
	if n, err := w.times.Write(b); err != nil && n > 0 {
		w.times.Close() // a part of one: the rest could not be read
		w.times = nil
		return
	}
	w.marks += MarkSize
	w.marked = now
}

// ReadMarks reads what Times names, one after the other until the file ends or is broken.
func ReadMarks(data []byte) (marks []Mark) {
	for ; len(data) >= MarkSize; data = data[MarkSize:] {
		marks = append(marks, Mark{
			Time:   time.Unix(0, int64(binary.BigEndian.Uint64(data))),
			Offset: int64(binary.BigEndian.Uint64(data[8:])),
		})
	}
	return marks
}
