package segment

import (
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// mostNames bounds what is read of a folder that a task may have filled with anything.
const mostNames = 4096

// List is where the segments of a stream begin, in order. The folder is read from its
// beginning.
func List(dir *os.File, stream string) ([]int64, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(mostNames)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var starts []int64
	for _, name := range names {
		if start, ok := Start(stream, name); ok {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	return starts, nil
}

// Sealed says whether a segment never grows any more.
func Sealed(mode uint32) bool { return mode&0o200 == 0 }

// Plain says whether what was opened is a file, and has one name or none.
func Plain(info *unix.Stat_t) bool { return info.Mode&unix.S_IFMT == unix.S_IFREG && info.Nlink <= 1 }
