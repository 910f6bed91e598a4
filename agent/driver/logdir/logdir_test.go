//go:build linux

package logdir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// small are limits with which logs rotate soon.
var small = segment.Limits{Bytes: 1000, Files: 3}

// task is the log of one task.
type task struct {
	*testing.T
	Dir
	path string
}

func newTask(t *testing.T) *task {
	d := Dir(t.TempDir())
	path := filepath.Join(string(d), "one")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return &task{t, d, path}
}

func (k *task) writer() *segment.Writer {
	k.Helper()
	w, err := segment.Open(k.path, segment.Stdout, small)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(w.Close)
	return w
}

func (k *task) open(from driver.From) driver.Log {
	k.Helper()
	r, err := k.Open("one", segment.Stdout, from)
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { _ = r.Close() })
	return r
}

// read reads all there is from somewhere on, and how much of it is missing.
func (k *task) read(r driver.Log, want int64) (text string, missing int64) {
	k.Helper()
	buf := make([]byte, 300)
	for {
		n, err := r.Read(buf)
		if n > 0 || err == io.EOF {
			missing += r.Offset() - int64(n) - want
			want = r.Offset()
			text += string(buf[:n])
		}
		if err == io.EOF {
			return text, missing
		}
		if err != nil {
			k.Fatal(err)
		}
	}
}

func line(i int) string { return fmt.Sprintf("line %05d\n", i) }

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(line(i))
	}
	return b.String()
}

// TestRotation: of a long stream the newest segments are there, none too long, and each
// begins with a line.
func TestRotation(t *testing.T) {
	k := newTask(t)
	w := k.writer()
	const all = 1000
	for i := range all {
		if i == 500 { // another process goes on
			w.Close()
			w = k.writer()
		}
		w.Write([]byte(line(i)))
	}
	text, missing := k.read(k.open(driver.From{}), 0)
	if missing == 0 || missing%int64(len(line(0))) != 0 || text != lines(int(missing)/len(line(0)), all) {
		t.Errorf("missing %d, read %.100q…", missing, text)
	}
	if len(text) < int(small.Bytes)*(small.Files-1) {
		t.Errorf("only %d bytes were kept", len(text))
	}
	size, err := k.Size("one")
	if most := (small.Bytes + small.Bytes/8 + segment.MarkSize) * int64(small.Files); err != nil || size > most {
		t.Errorf("the logs take %d bytes, more than %d; %v", size, most, err)
	}
}

// TestOddChunks: whatever comes at once, segments begin with a line; but a line longer than
// one is not spared.
func TestOddChunks(t *testing.T) {
	for _, chunk := range []int{1, 7, 250, 500, 1000, 1001, 3000} {
		k := newTask(t)
		w := k.writer()
		all := lines(0, 1000)
		for at := 0; at < len(all); at += chunk {
			w.Write([]byte(all[at:min(at+chunk, len(all))]))
		}
		text, missing := k.read(k.open(driver.From{}), 0)
		if missing == 0 || text != all[missing:] || !strings.HasPrefix(text, "line ") {
			t.Errorf("in chunks of %d: missing %d, read %.20q…", chunk, missing, text)
		}
		w.Write(bytes.Repeat([]byte("x"), 10_000))
		size, err := k.Size("one")
		if most := (small.Bytes*9/8 + small.Bytes/8 + segment.MarkSize) * int64(small.Files); err != nil || size > most {
			t.Errorf("with a long line the logs take %d bytes, more than %d; %v", size, most, err)
		}
	}
}

// TestFollow: a reader that keeps up misses nothing, whatever is rotated.
func TestFollow(t *testing.T) {
	k := newTask(t)
	w := k.writer()
	r := k.open(driver.From{})
	var text string
	for i := range 1000 {
		w.Write([]byte(line(i)))
		if i%97 == 0 {
			more, missing := k.read(r, r.Offset())
			text += more
			if missing != 0 {
				t.Fatalf("missing %d bytes", missing)
			}
		}
	}
	more, _ := k.read(r, r.Offset())
	if text += more; text != lines(0, 1000) {
		t.Errorf("read %d bytes of %d", len(text), len(lines(0, 1000)))
	}
}

// TestSlowReader: what was rotated away before it was read is counted, in whole lines, and
// the segment that is being read is read to its end.
func TestSlowReader(t *testing.T) {
	k := newTask(t)
	w := k.writer()
	r := k.open(driver.From{})
	w.Write([]byte(lines(0, 10)))
	if text, missing := k.read(r, 0); text != lines(0, 10) || missing != 0 {
		t.Fatalf("read %q, missing %d", text, missing)
	}
	w.Write([]byte(lines(10, 2000)))
	text, missing := k.read(r, r.Offset())
	perLine := int64(len(line(0)))
	first := strings.Index(text, lines(2000-200, 2000))
	if missing == 0 || missing%perLine != 0 || first < 0 || int64(len(text))+missing != 1990*perLine {
		t.Errorf("missing %d, read %d bytes", missing, len(text))
	}
	if !strings.HasPrefix(text, line(10)) {
		t.Errorf("after a pause it went on with %.20q", text)
	}
}

// TestResume: a place in the stream is where another reader goes on.
func TestResume(t *testing.T) {
	k := newTask(t)
	w := k.writer()
	w.Write([]byte(lines(0, 200)))
	for at := int64(0); at <= 200*11; at += 7 {
		r := k.open(driver.From{Offset: at})
		text, missing := k.read(r, at)
		if want := lines(0, 200)[at+missing:]; text != want {
			t.Fatalf("from %d, with %d missing: %.30q, want %.30q", at, missing, text, want)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTail(t *testing.T) {
	k := newTask(t)
	w := k.writer()
	w.Write([]byte(lines(0, 200)))
	for tail, want := range map[int]string{-1: "", 1: line(199), 5: lines(195, 200), 150: lines(50, 200)} {
		if text, _ := k.read(k.open(driver.From{Tail: tail}), 0); text != want {
			t.Errorf("the last %d: %.40q, want %.40q", tail, text, want)
		}
	}
	if text, _ := k.read(k.open(driver.From{Tail: 10000}), 0); !strings.HasSuffix(lines(0, 200), text) || len(text) < 2000 {
		t.Errorf("more than there are: %d bytes", len(text))
	}
	w.Write([]byte("no end"))
	if text, _ := k.read(k.open(driver.From{Tail: 2}), 0); text != line(199)+"no end" {
		t.Errorf("the last two: %q", text)
	}
}

// TestSince: what was written before is left out, to within a second.
func TestSince(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		k := &task{t, Dir(dir), filepath.Join(dir, "one")}
		if err := os.Mkdir(k.path, 0o700); err != nil {
			t.Fatal(err)
		}
		w, err := segment.Open(k.path, segment.Stdout, segment.Limits{Bytes: 16_000, Files: 3})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		begin := time.Now()
		for i := range 250 { // one each two seconds
			w.Write([]byte(line(i)))
			time.Sleep(2 * time.Second)
		}
		for _, c := range []struct {
			since time.Duration
			want  int
		}{{499 * time.Second, 250}, {498 * time.Second, 249}, {420 * time.Second, 210}, {300*time.Second + time.Second/2, 150}} {
			text, _ := k.read(k.open(driver.From{Since: begin.Add(c.since)}), 0)
			if want := lines(c.want, 250); text != want {
				t.Errorf("since %v: %.30q, want %.30q", c.since, text, want)
			}
		}
		if text, _ := k.read(k.open(driver.From{Since: begin}), 0); !strings.HasSuffix(lines(0, 250), text) || len(text) < 1500 {
			t.Errorf("since the beginning: %d bytes", len(text))
		}
		if text, _ := k.read(k.open(driver.From{Since: begin.Add(420 * time.Second), Tail: 3}), 0); text != lines(247, 250) {
			t.Errorf("since and tail: %q", text)
		}
	})
}

// TestSeveralWriters: the containers of a task share its streams, and none of their lines
// is torn or lost.
func TestSeveralWriters(t *testing.T) {
	k := newTask(t)
	r := k.open2()
	var writing sync.WaitGroup
	for range 4 {
		w := k.writer()
		writing.Go(func() {
			for i := range 300 {
				w.Write([]byte(line(i)))
			}
		})
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	var text string
	var missing int64
	for over := false; ; {
		more, gone := k.read(r, r.Offset())
		text, missing = text+more, missing+gone
		if over {
			break
		}
		select {
		case <-done:
			over = true
		default:
		}
	}
	if got := int64(len(text)) + missing; got != int64(4*300*len(line(0))) {
		t.Errorf("%d bytes were written", got)
	}
	for l := range strings.Lines(text) {
		if len(l) != len(line(0)) || !strings.HasPrefix(l, "line ") {
			t.Fatalf("a line is %q", l)
		}
	}
}

// open2 opens the log once it is there.
func (k *task) open2() driver.Log {
	k.writer().Close()
	return k.open(driver.From{})
}

// TestFullDisk: what cannot be written is dropped, and counted; what is written afterwards
// is where it belongs, and older segments made room for it.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	k := &task{t, Dir(dir), filepath.Join(dir, "one")}
	if err := os.Mkdir(k.path, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := segment.Open(k.path, segment.Stdout, segment.Limits{Bytes: 1 << 20, Files: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.Write([]byte("first\n"))
	fill := filepath.Join(dir, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 1<<20)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	_ = f.Close()
	var written int
	for range 100 {
		p := bytes.Repeat([]byte("x"), 999)
		w.Write(append(p, '\n'))
		written += 1000
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("last\n"))
	text, missing := k.read(k.open(driver.From{}), 0)
	if !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "xlast\n") || missing < 50_000 || len(text)+int(missing) != written+11 {
		t.Errorf("missing %d, read %d bytes %.20q … %q", missing, len(text), text, text[len(text)-10:])
	}
}

// TestCase108Segments: nothing but a plain file is read under the name of any segment, nor
// of its times, and nothing waits.
func TestCase108Segments(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, trap := range map[string]func(path string) error{
		"symlink":   func(path string) error { return os.Symlink(secret, path) },
		"upwards":   func(path string) error { return os.Symlink("../../secret", path) },
		"hard link": func(path string) error { return os.Link(secret, path) },
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"device":    func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
		"folder":    func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newTask(t)
			w := k.writer()
			w.Write([]byte(lines(0, 250)))
			r := k.open(driver.From{})
			if n, err := r.Read(make([]byte, 10)); n == 0 || err != nil {
				t.Fatal(err)
			}
			dir, err := os.Open(k.path)
			if err != nil {
				t.Fatal(err)
			}
			starts, err := segment.List(dir, segment.Stdout)
			_ = dir.Close()
			if err != nil || len(starts) != 3 {
				t.Fatalf("segments %v, %v", starts, err)
			}
			for _, file := range []string{segment.Name(segment.Stdout, starts[1]), segment.Times(segment.Name(segment.Stdout, starts[0]))} {
				path := filepath.Join(k.path, file)
				if err := errors.Join(os.Remove(path), trap(path)); err != nil {
					t.Fatal(err)
				}
			}
			if text, err := io.ReadAll(r); err == nil || errors.Is(err, fs.ErrNotExist) || strings.Contains(string(text), "secret") {
				t.Errorf("a reader that comes to it: %v, %q", err, text)
			}
			if r, err := k.Open("one", segment.Stdout, driver.From{Offset: starts[1] + 1}); err == nil {
				data, _ := io.ReadAll(io.LimitReader(r, 10))
				_ = r.Close()
				t.Errorf("opened there it reads %q", data)
			}
			if r, err := k.Open("one", segment.Stdout, driver.From{Tail: 200}); err == nil {
				_ = r.Close()
				t.Error("it was searched for lines")
			}
			if r, err := k.Open("one", segment.Stdout, driver.From{Since: time.Now()}); err == nil {
				_ = r.Close() // nobody knows when, so all is shown
			}
			// The writer, too, leaves alone what is none of its own.
			path := filepath.Join(k.path, segment.Name(segment.Stdout, starts[2]))
			if err := errors.Join(os.Remove(path), trap(path)); err != nil {
				t.Fatal(err)
			}
			w.Close()
			again, err := segment.Open(k.path, segment.Stdout, small)
			if err != nil {
				t.Fatal(err)
			}
			again.Write([]byte(lines(0, 100)))
			again.Close()
			if data, err := os.ReadFile(secret); string(data) != "a secret\n" {
				t.Errorf("the secret is %q, %v", data, err)
			}
			if err := k.Remove("one"); err != nil {
				t.Error(err)
			}
		})
	}
}
