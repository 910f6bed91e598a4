// Package segment keeps a stream of a task's log in files of bounded size, its segments, of
// which the oldest goes when there are too many: a task that prints as fast as it can takes
// no more of the disk than that.
//
// A segment is never renamed. Its name says how many bytes of the stream came before its
// first one, so a place in the stream is one number, which stays true while segments come
// and go; and what is missing before a segment, because nobody read it in time or because
// the disk was full, can be counted.
//
// Who writes is a process that outlives the agent and reads the task's output from a pipe.
// It never keeps the task waiting for anything but the disk: what cannot be written is
// dropped, and counted. (The task itself cannot be the writer of files that rotate: it would
// have to let go of the old one; and to copy a file and cut it loses what is written in
// between.)
//
// What must hold:
//
//	S1  a segment that is sealed (nobody may write to it, says its mode) never grows
//	S2  there is no segment after one that is not sealed, but after a crash of the machine
//	S3  several processes may write a stream, each of them under the lock of its folder
//
// A segment ends with a line wherever it can.
package segment

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Streams of a task.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Limits of what is kept of a stream. Zero ones take the default.
type Limits struct {
	Bytes int64 // of one segment, and up to an eighth more to end with a line; 10 MiB
	Files int   // so many segments, the one that is written included; 5
}

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 10 << 20
	}
	if l.Files <= 0 {
		l.Files = 5
	}
	return l
}

// Target is the folder and the limits of a task's logs in one word, for a program that is to
// write them.
func Target(dir string, l Limits) string {
	return fmt.Sprintf("%d,%d,%s", l.Bytes, l.Files, dir)
}

// ParseTarget reads what Target wrote.
func ParseTarget(target string) (dir string, l Limits, err error) {
	part := strings.SplitN(target, ",", 3)
	if len(part) == 3 {
		var errs [2]error
		l.Bytes, errs[0] = strconv.ParseInt(part[0], 10, 64)
		l.Files, errs[1] = strconv.Atoi(part[1])
		if err = errors.Join(errs[:]...); err == nil && strings.HasPrefix(part[2], "/") {
			return part[2], l, nil
		}
	}
	return "", l, fmt.Errorf("%q does not say where logs go", target)
}

// Name is that of a stream's segment before which there were start bytes.
func Name(stream string, start int64) string {
	if start == 0 {
		return stream
	}
	return stream + "." + strconv.FormatInt(start, 10)
}

// Start is the number in the name of a stream's segment; ok is false for any other file.
func Start(stream, name string) (start int64, ok bool) {
	if name == stream {
		return 0, true
	}
	number, ok := strings.CutPrefix(name, stream+".")
	if !ok {
		return 0, false
	}
	start, err := strconv.ParseInt(number, 10, 64)
	return start, err == nil && start > 0 && Name(stream, start) == name
}

// timesSuffix is that of the file beside a segment that says what was written when.
const timesSuffix = ".times"

// Times is the name of the file that says when a segment was written: Mark after Mark.
func Times(segment string) string { return segment + timesSuffix }

// Mark says that what stands at and after a place was written at that time or later. There
// is one a second at most, where anything is written.
type Mark struct {
	Time   time.Time
	Offset int64 // of the stream
}

// MarkSize is that of one Mark in its file, in bytes; MarkEvery the shortest time between two.
const (
	MarkSize  = 16
	MarkEvery = time.Second
)
