package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// numbers are those from first to last, a line each, as seq prints them.
func numbers(first, last int) []byte {
	var text []byte
	for n := first; n <= last; n++ {
		text = fmt.Appendf(text, "%d\n", n)
	}
	return text
}

// Field case 69: a task counts as fast as it can, its log rotates, the whole cell is killed
// under whoever follows it, and the attempt fails and is replaced: every number comes once, in
// its order.
func TestCase69(t *testing.T) {
	t.Parallel()
	const half, last = 1_500_000, 3_000_000 // 11 and 12 MB, where a log rotates at 10 MiB
	dir, notes := shortDir(t), shortDir(t)
	d := startDevAt(t, dir, freeAddress(t))
	d.ohm("run", d.job(fmt.Sprintf(`
job: counter
kind: batch
retries: 1
groups:
  - name: main
    cpu: 10m
    memory: 32Mi
    command:
      - sh
      - -c
      - |
        until [ -e %[1]s/go ]; do sleep 0.1; done
        seq 1 %[2]d
        until [ -e %[1]s/more ]; do sleep 0.1; done
        seq %[3]d %[4]d
        [ $OHM_ATTEMPT = 2 ]
`, notes, half, half+1, last)))
	within(t, patience, "the task runs", func() bool { return d.tasks("counter")["counter/main/0"].State == "Running" })
	follow := start(t, "ohm", "--address", d.address, "logs", "-f", "counter", "--stream", "stdout")
	note := func(name string) {
		if err := os.WriteFile(filepath.Join(notes, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	note("go")
	want := numbers(1, last)
	first := int64(len(numbers(1, half)))
	within(t, patience, "the first half is there", func() bool {
		info, err := os.Stat(follow.out)
		return err == nil && info.Size() == first
	})
	d.kill()
	note("more")
	d.again()
	if code := follow.code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if got := []byte(follow.stdout()); !bytes.Equal(got, bytes.Repeat(want, 2)) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Errorf("of twice %d bytes %d came; the first attempt's go wrong at %d", len(want), len(got), at)
	}
	for _, said := range []string{"the log broke off and is asked for again", "attempt 2"} {
		if !strings.Contains(follow.stderr(), said) {
			t.Errorf("it did not say %q:\n%s", said, follow.stderr())
		}
	}
	rotated := 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); strings.HasPrefix(name, "stdout.") && !strings.HasSuffix(name, ".times") {
			rotated++
		}
		return err
	})
	if err != nil || rotated != 2*2 {
		t.Errorf("the logs of two attempts rotated %d times, %v", rotated, err)
	}
}
