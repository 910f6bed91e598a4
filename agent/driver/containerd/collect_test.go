//go:build linux

package containerd

import (
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
)

// TestCollect: the images used longest ago go first, none that a container is of, none that
// was just used, and no more than there must; a task of one that has gone gets it again.
func TestCollect(t *testing.T) {
	s := newSetup(t)
	d := s.driver(t, t.TempDir())
	defer d.Close()
	var names []string
	var files []string
	for _, content := range []string{"in use", "oldest", "newer", "newest"} {
		file, _ := drivertest.MakeImage(t, drivertest.Image{Layers: []drivertest.Layer{{"of": content}}})
		img, err := d.image(t.Context(), "tar:"+file)
		if err != nil {
			t.Fatal(err)
		}
		names, files = append(names, img.Name()), append(files, file)
	}
	run := func(id, file string) {
		t.Helper()
		task := driver.Task{ID: id, Command: []string{"sleep", "1000"}, Box: driver.Box{Image: "tar:" + file}}
		if err := d.Start(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	end := func(id string) {
		t.Helper()
		if err := d.Kill(t.Context(), id); err != nil {
			t.Error(err)
		}
		if err := d.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	run("user", files[0])
	defer end("user")
	if err := d.used(t.Context(), names[2]); err != nil { // so it is not the third any more
		t.Fatal(err)
	}
	if err := d.used(t.Context(), names[3]); err != nil {
		t.Fatal(err)
	}
	kept := func() (left []int) {
		all, err := d.client.ListImages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, img := range all {
			left = append(left, slices.Index(names, img.Name()))
		}
		slices.Sort(left)
		return left
	}
	takes := int64(0)
	for _, name := range names {
		img, err := d.client.GetImage(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := img.Usage(t.Context(), client.WithSnapshotUsage())
		if err != nil || size < 1<<20 {
			t.Fatal(size, err)
		}
		takes += size
	}
	for _, c := range []struct {
		limit  int64
		before time.Time
		want   []int
	}{
		{takes, time.Now(), []int{0, 1, 2, 3}},
		{0, time.Now().Add(-time.Hour), []int{0, 1, 2, 3}},
		{takes - 1, time.Now(), []int{0, 2, 3}},
		{0, time.Now(), []int{0}},
	} {
		if err := d.collectTo(t.Context(), c.limit, c.before); err != nil {
			t.Error(err)
		}
		if left := kept(); !slices.Equal(left, c.want) {
			t.Errorf("with room for %d, of those not used since %v, %v are left, want %v", c.limit, c.before, left, c.want)
		}
	}
	run("again", files[1])
	end("again")
}
