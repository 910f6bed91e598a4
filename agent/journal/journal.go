// Package journal is a small durable map from a name to a few bytes, in one file that
// is appended to.
//
// Whoever keeps a journal can do without it: a line that is torn, or a file that cannot
// be read, is set aside under another name and said in the log, and the journal goes on
// with what is left. A disk that takes no writes is no reason to stop either: the map in
// memory is whole, and the file is written anew as soon as that works.
package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.uber.org/zap"
)

// slack is how many lines the file may have beyond those that are needed.
const slack = 1000

// Journal is not safe for use by several goroutines at once.
type Journal struct {
	path    string
	log     *zap.Logger
	live    map[string][]byte
	pending bytes.Buffer // lines that the file does not have yet
	changed bool         // the file lags behind live
	file    *os.File     // nil: to be written anew before it is appended to
	lines   int          // in the file
	failing bool         // the last Flush did not work
}

// line is one entry of the file: a checksum, a space, this, and a newline. Without a
// value the name is forgotten.
type line struct {
	Name  string `json:"name"`
	Value []byte `json:"value,omitempty"`
}

// Open reads the journal at path, which need not be there; its folder must. An error
// says that the folder cannot be used at all.
func Open(path string, log *zap.Logger) (*Journal, error) {
	if at, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	} else if !at.IsDir() {
		return nil, fmt.Errorf("journal: %s is not a folder", filepath.Dir(path))
	}
	j := &Journal{path: path, log: log, live: map[string][]byte{}, changed: true}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return j, nil
	case err != nil:
		j.setAside(err.Error())
		return j, nil
	}
	if len(data) == 0 { // it never is of itself: see rewrite
		j.setAside("it is empty")
		return j, nil
	}
	if bad := j.read(data); bad > 0 {
		j.setAside(fmt.Sprintf("%d damaged lines", bad))
	}
	return j, nil
}

// read takes what is whole and counts the rest.
func (j *Journal) read(data []byte) (bad int) {
	for len(data) > 0 {
		text, rest, whole := bytes.Cut(data, []byte("\n"))
		data = rest
		l, ok := parse(text)
		switch {
		case !ok || !whole:
			bad++
		case l.Value == nil:
			delete(j.live, l.Name)
		default:
			j.live[l.Name] = l.Value
		}
	}
	return bad
}

func parse(text []byte) (l line, ok bool) {
	if len(text) < 9 || text[8] != ' ' {
		return l, false
	}
	sum, err := hex.DecodeString(string(text[:8]))
	if err != nil || !bytes.Equal(sum, checksum(text[9:])) {
		return l, false
	}
	return l, json.Unmarshal(text[9:], &l) == nil && l.Name != ""
}

func checksum(data []byte) []byte {
	sum := crc32.ChecksumIEEE(data)
	return []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
}

// setAside keeps a damaged file for people to look at; the last one only.
func (j *Journal) setAside(why string) {
	aside := j.path + ".damaged"
	err := os.Rename(j.path, aside)
	j.log.Warn("the journal is damaged and set aside; going on with what is left of it",
		zap.String("file", aside), zap.String("damage", why), zap.Int("entries", len(j.live)), zap.Error(err))
}

// All are the entries, which the caller may keep but not write to.
func (j *Journal) All() map[string][]byte { return maps.Clone(j.live) }

// Put sets the entry of a name; the value is not empty. Flush makes it durable.
func (j *Journal) Put(name string, value []byte) { j.write(line{name, value}) }

// Delete forgets a name.
func (j *Journal) Delete(name string) {
	if _, ok := j.live[name]; ok {
		j.write(line{Name: name})
	}
}

func (j *Journal) write(l line) {
	if l.Value == nil {
		delete(j.live, l.Name)
	} else {
		j.live[l.Name] = l.Value
	}
	j.changed = true
	if j.file != nil {
		appendLine(&j.pending, l)
		j.lines++
	}
}

func appendLine(to *bytes.Buffer, l line) {
	text, err := json.Marshal(l)
	if err != nil {
		return // a string and bytes: cannot be
	}
	fmt.Fprintf(to, "%x %s\n", checksum(text), text)
}

// Flush makes what was put and deleted durable, with one sync. What fails is tried again
// by the next one.
func (j *Journal) Flush() error {
	if !j.changed {
		return nil
	}
	err := j.flush()
	if err != nil {
		j.shut()
		if !j.failing {
			j.log.Warn("the journal cannot be written; tasks go on without it", zap.Error(err))
		}
	} else if j.failing {
		j.log.Info("the journal is written again")
	}
	j.failing, j.changed = err != nil, err != nil
	return err
}

func (j *Journal) flush() error {
	if j.file == nil || j.lines > len(j.live)*4+slack {
		return j.rewrite()
	}
	if _, err := j.pending.WriteTo(j.file); err != nil {
		return err
	}
	return j.file.Sync()
}

// mark is the name in the first line of a file; nothing else has it.
const mark = "."

// rewrite replaces the file by one that holds just what is live.
func (j *Journal) rewrite() error {
	j.shut()
	var all bytes.Buffer
	appendLine(&all, line{Name: mark}) // without entries, too, the file is not empty
	for _, name := range slices.Sorted(maps.Keys(j.live)) {
		appendLine(&all, line{name, j.live[name]})
	}
	draft := j.path + ".new"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err = all.WriteTo(f); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(draft, j.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(j.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.file, j.lines = f, len(j.live)+1
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// shut leaves the file; what it lacks is in live.
func (j *Journal) shut() {
	if j.file != nil {
		_ = j.file.Close() // synced, or to be replaced
	}
	j.file = nil
	j.pending.Reset()
}

// Close flushes and gives back the file.
func (j *Journal) Close() error {
	err := j.Flush()
	j.shut()
	return err
}
