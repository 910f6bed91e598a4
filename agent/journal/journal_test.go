package journal

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"
)

func open(t *testing.T, path string) (*Journal, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	j, err := Open(path, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	return j, logs
}

func want(t *testing.T, j *Journal, entries map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name, value := range j.All() {
		got[name] = string(value)
	}
	if !maps.Equal(got, entries) {
		t.Errorf("the journal holds %v, want %v", got, entries)
	}
}

// written makes a journal with three entries, each flushed alone.
func written(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	for _, name := range []string{"a", "b", "c"} {
		j.Put(name, []byte("value of "+name))
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	j.Put("gone", []byte("x"))
	j.Delete("gone")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

var three = map[string]string{"a": "value of a", "b": "value of b", "c": "value of c"}

func TestReadBack(t *testing.T) {
	path := written(t)
	for range 2 {
		j, logs := open(t, path)
		want(t, j, three)
		j.Put("a", []byte("value of a"))
		if err := j.Close(); err != nil || logs.Len() > 0 {
			t.Fatal(err, logs.All())
		}
	}
}

// TestDamage is field case 66: whatever happened to the file, the journal opens, says
// so, keeps what is whole and works.
func TestDamage(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(data []byte) []byte
		left   []string
	}{
		{"empty", func([]byte) []byte { return nil }, nil},
		{"torn at the end", func(d []byte) []byte { return d[:bytes.Index(d, []byte(`"gone"`))+3] }, []string{"a", "b", "c"}},
		{"half", func(d []byte) []byte { return d[:bytes.Index(d, []byte(`"b"`))+4] }, []string{"a"}},
		{"zeros", func(d []byte) []byte { return make([]byte, len(d)) }, nil},
		{"a flipped bit", func(d []byte) []byte { d[bytes.Index(d, []byte(`"b"`))+1] ^= 1; return d }, []string{"a", "c"}},
		{"something else", func([]byte) []byte { return []byte("hello\nworld\n") }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := written(t)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			damaged := c.damage(slices.Clone(data))
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			left := map[string]string{}
			for _, name := range c.left {
				left[name] = three[name]
			}
			j, logs := open(t, path)
			want(t, j, left)
			if logs.Len() == 0 {
				t.Errorf("said: %v", logs.All())
			}
			aside, err := os.ReadFile(path + ".damaged")
			if err != nil || !bytes.Equal(aside, damaged) {
				t.Errorf("set aside: %v", err)
			}
			j.Put("new", []byte("entry"))
			left["new"] = "entry"
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			again, logs := open(t, path)
			want(t, again, left)
			if logs.Len() > 0 {
				t.Errorf("still damaged: %v", logs.All())
			}
		})
	}
}

func TestUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := os.Mkdir(path, 0o700); err != nil { // cannot be read by anybody, root included
		t.Fatal(err)
	}
	j, logs := open(t, path)
	if logs.FilterMessageSnippet("set aside").Len() != 1 {
		t.Errorf("said: %v", logs.All())
	}
	j.Put("a", []byte("1"))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, path)
	want(t, again, map[string]string{"a": "1"})
	if _, err := Open(filepath.Join(path, "journal"), zap.NewNop()); err == nil {
		t.Error("a folder that is none was taken")
	}
}

// TestNoWrites has a disk that takes nothing for a while.
func TestNoWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, logs := open(t, path)
	j.Put("a", []byte("1"))
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := j.file.Close(); err != nil { // its writes fail from now on
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil { // and it cannot be written anew
		t.Fatal(err)
	}
	for i := range 3 {
		j.Put("b", fmt.Append(nil, i))
		if err := j.Flush(); err == nil {
			t.Fatal("flushed to a file that takes nothing")
		}
	}
	if logs.Len() != 1 {
		t.Errorf("said: %v", logs.All())
	}
	want(t, j, map[string]string{"a": "1", "b": "2"})
	if err := os.Remove(path + ".new"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, path)
	want(t, again, map[string]string{"a": "1", "b": "2"})
}

func TestStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, _ := open(t, path)
	for i := range 10 * slack {
		j.Put("a", fmt.Append(nil, i))
		if i%50 == 0 {
			if err := j.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || bytes.Count(data, []byte("\n")) > 2*slack {
		t.Errorf("%d lines, %v", bytes.Count(data, []byte("\n")), err)
	}
	again, _ := open(t, path)
	want(t, again, map[string]string{"a": fmt.Sprint(10*slack - 1)})
}

// TestLikeAMap compares a journal, opened again and again, with a map.
func TestLikeAMap(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		folder, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, "journal")
		model := map[string]string{}
		j, err := Open(path, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				j.Delete(name)
				delete(model, name)
			case 1:
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				if j, err = Open(path, zap.NewNop()); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := j.Flush(); err != nil {
					t.Fatal(err)
				}
			default:
				value := rapid.StringN(1, 20, -1).Draw(t, "value")
				j.Put(name, []byte(value))
				model[name] = value
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Open(path, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if len(again.live) != len(model) {
			t.Fatalf("%q, want %q", again.live, model)
		}
		for name, value := range model {
			if string(again.live[name]) != value {
				t.Fatalf("%q, want %q", again.live, model)
			}
		}
	})
}
