package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// report is the file in which a container's ohm-init says how it goes.
func (d *Driver) report(id, container string) string {
	return filepath.Join(d.folder(id), reportFile+container)
}

// said is an ohm-init's report.
type said struct {
	pid    int
	failed string
	end    string // exited or signalled
	number int
}

// maxReport bounds what is read of a report, which the task could have written to.
const maxReport = 16 << 10

func readReport(path string) (r said) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return r
	}
	defer f.Close()
	data := make([]byte, maxReport)
	n, _ := f.Read(data)
	for line := range strings.Lines(string(data[:n])) {
		line, whole := strings.CutSuffix(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case !whole:
		case word == "started":
			fmt.Sscan(rest, &r.pid)
		case word == "failed":
			r.failed = rest
		case word == "exited" || word == "signalled":
			r.end = word
			fmt.Sscan(rest, &r.number)
		}
	}
	return r
}
