package drivertest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/segment"
	"github.com/ohmcell/ohm/pkg/task"
)

// LogLimits are what a fixture is to set for the logs of its tasks: small, so that they
// rotate often.
func LogLimits() segment.Limits { return segment.Limits{Bytes: 256 << 10, Files: 3} }

// countTo is how far the tasks of these cases count: some 3 MB.
const countTo = 500_000

// counted is what such a task has said in all, in bytes.
func counted() (n int64) {
	for from, digits := 1, int64(1); from <= countTo; from, digits = from*10, digits+1 {
		n += int64(min(from*10-1, countTo)-from+1) * (digits + 1)
	}
	return n
}

// logBounded: a task that prints as fast as it can, while nobody reads, is not held up, and
// what is kept of it is the end.
func logBounded(t *testing.T, b *bench) {
	id := b.script(fmt.Sprintf("seq 1 %d", countTo))
	b.expectExit(b.ended(id), 0)
	r := b.open(id, driver.From{})
	defer r.Close()
	data, err := io.ReadAll(r)
	b.must(err)
	limits := LogLimits()
	if most := int(limits.Bytes+limits.Bytes/8) * limits.Files; len(data) > most || len(data) < most/2 {
		t.Errorf("%d bytes are kept, with %d at most", len(data), most)
	}
	if r.Offset() != counted() || !strings.HasSuffix(string(data), fmt.Sprintf("\n%d\n%d\n", countTo-1, countTo)) {
		t.Errorf("of %d bytes it ends at %d with %q", counted(), r.Offset(), data[max(0, len(data)-20):])
	}
}

func (b *bench) open(id string, from driver.From) driver.Log {
	b.Helper()
	r, err := b.driver.Logs(b.Context(), id, "stdout", from)
	b.must(err)
	return r
}

// case69 follows a task that counts as fast as it can, across rotations and, now and then,
// with another reader that goes on where the one before was: the numbers are without a gap,
// but for what is said to be missing.
func case69(t *testing.T, b *bench) {
	id := b.script(fmt.Sprintf("seq 1 %d", countTo))
	r := b.open(id, driver.From{})
	defer func() { r.Close() }()
	buf := make([]byte, 64<<10)
	var rest string
	var at int64 // read, or missing
	last, missing, read := 0, int64(0), int64(0)
	deadline := time.Now().Add(patience)
	for reads, over := 0, false; ; reads++ {
		n, err := r.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		gap := r.Offset() - int64(n) - at
		if at = r.Offset(); gap > 0 {
			missing, read, rest = missing+gap, read+int64(len(rest)), "" // a line may be torn where something is missing
		}
		lines := strings.Split(rest+string(buf[:n]), "\n")
		rest = lines[len(lines)-1]
		for i, line := range lines[:len(lines)-1] {
			number, err := strconv.Atoi(line)
			if err != nil || number != last+1 && (i > 0 || gap == 0) || number <= last {
				t.Fatalf("after %d comes %q, and %d bytes are said to be missing", last, line, gap)
			}
			last, read = number, read+int64(len(line))+1
		}
		switch {
		case err == nil && reads%10 == 0:
			r.Close()
			b.restart()
			r = b.open(id, driver.From{Offset: at})
		case err == nil:
		case over:
			if last != countTo || read+missing != counted() {
				t.Errorf("it ends with %d; %d bytes were read and %d are missing of %d", last, read, missing, counted())
			}
			t.Logf("%d bytes read, %d said to be missing", read, missing)
			return
		default:
			over = task.Ended(b.observe(id).State)
			if time.Now().After(deadline) {
				t.Fatal("it does not end")
			}
		}
	}
}
