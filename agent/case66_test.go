package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/ohmcell/ohm/pkg/task"
)

// Field case 66: whatever a power loss, or a disk, did to the journal, the agent starts, takes
// its tasks back, starts none of them again, and says what it found; the bad file stays.
func TestCase66BadJournal(t *testing.T) {
	halve := func(t *testing.T, path string) {
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()/2)
		}
		if err != nil {
			t.Error(err)
		}
	}
	replace := func(with []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, with, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		harm  func(t *testing.T, path string)
		aside bool   // the file is kept under another name
		said  string // in the log; empty: there is nothing to say
	}{
		"sound":     {func(*testing.T, string) {}, false, ""},
		"torn":      {halve, true, "the journal is damaged and set aside; going on with what is left of it"},
		"empty":     {replace(nil), true, "the journal is damaged and set aside; going on with what is left of it"},
		"zeros":     {replace(make([]byte, 4096)), true, "the journal is damaged and set aside; going on with what is left of it"},
		"nonsense":  {replace(bytes.Repeat([]byte("\xff\n"), 99)), true, "the journal is damaged and set aside; going on with what is left of it"},
		"missing":   {func(t *testing.T, path string) { remove(t, path) }, false, ""},
		"no file":   {func(t *testing.T, path string) { remove(t, path); makeFolder(t, path) }, true, "the journal is damaged and set aside; going on with what is left of it"},
		"full disk": {fill, false, "the journal cannot be written; tasks go on without it"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				core, logs := observer.New(zapcore.WarnLevel)
				w.config.Log = zap.New(core)
				runs, over := assignment("runs", 1000), assignment("over", 1000)
				w.start().complete(runs, over)
				w.halt()
				w.m.exit(over.Id, 0) // while no agent is there
				w.m.did()
				path := filepath.Join(w.config.Dir, "journal")
				c.harm(t, path)
				w.start().complete(runs, over)
				w.pass(time.Minute)
				equal(t, "calls", w.m.did(), nil)
				equal(t, "the task that runs", w.last(runs.Id).GetState(), task.Running)
				equal(t, "the task that is over", w.last(over.Id).GetState(), task.Succeeded)
				_, err := os.Lstat(path + ".damaged")
				equal(t, "the bad file is kept", err == nil, c.aside)
				found := ""
				for _, l := range logs.All() {
					if l.LoggerName == "" && (l.Message != "the driver's watch ended") {
						found = l.Message
						break
					}
				}
				equal(t, "the log says", found, c.said)
				room(t, path)
				w.complete(runs)
				w.pass(time.Minute)
				w.halt()
				if info, err := os.Stat(path); err != nil || info.Size() == 0 {
					t.Errorf("the journal is not written again: %v", err)
				}
			})
		})
	}
}

func remove(t *testing.T, path string) {
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}

func makeFolder(t *testing.T, path string) {
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Error(err)
	}
}

// fill leaves no room where the journal writes: what is new of it goes to a device that is
// always full.
func fill(t *testing.T, path string) {
	if err := os.Symlink("/dev/full", path+".new"); err != nil {
		t.Error(err)
	}
}

// room undoes fill.
func room(t *testing.T, path string) {
	info, err := os.Lstat(path + ".new")
	if errors.Is(err, syscall.ENOENT) || err == nil && info.Mode().IsRegular() {
		return
	}
	remove(t, path+".new")
}
