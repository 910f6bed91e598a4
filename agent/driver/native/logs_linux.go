package native

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/segment"
)

// Logs opens one stream of a task.
func (d *Driver) Logs(_ context.Context, id, stream string, from driver.From) (driver.Log, error) {
	return d.logs.Open(id, stream, from)
}

// ListLogs names the tasks of which there are logs.
func (d *Driver) ListLogs(ctx context.Context) (map[string]time.Time, error) { return d.logs.List(ctx) }

// DiskBytes is what the scratch folder takes, and what lies over the images.
func (d *Driver) DiskBytes(ctx context.Context, id string) (int64, error) {
	if err := folder.CheckID(id); err != nil {
		return 0, err
	}
	sp, err := folder.Read[spec](filepath.Join(d.folder(id), specFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	dirs := []string{filepath.Join(d.folder(id), scratchDir)}
	for _, p := range sp.all() {
		if p.Root.Dir != "" {
			dirs = append(dirs, filepath.Join(d.folder(id), p.Root.Dir, "upper"))
		}
	}
	return folder.Size(ctx, dirs...)
}

// LogBytes counts what is in the folder of a task's logs.
func (d *Driver) LogBytes(_ context.Context, id string) (int64, error) { return d.logs.Size(id) }

// RemoveLogs forgets both streams.
func (d *Driver) RemoveLogs(_ context.Context, id string) error { return d.logs.Remove(id) }

// output is what a task says, on its way through the shim: the shim outlives the agent, and
// a task never outlives its shim.
type output struct {
	over   chan struct{} // closed when the task has ended
	copied chan struct{} // closed when all that it said has been written
}

// open makes the pipes, of which the ends to write to are the task's, and begins to read
// the others. The folder of the logs must not be there.
func (o *output) open(dir string, limits segment.Limits) (ends []*os.File, err error) {
	var pipes []*os.File
	var writers []*segment.Writer
	defer func() {
		if err == nil {
			return
		}
		for _, f := range append(pipes, ends...) {
			f.Close()
		}
		for _, w := range writers {
			w.Close()
		}
	}()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	for _, stream := range []string{segment.Stdout, segment.Stderr} {
		w, err := segment.Open(dir, stream, limits)
		if err != nil {
			return nil, err
		}
		writers = append(writers, w)
		r, end, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		pipes, ends = append(pipes, r), append(ends, end)
	}
	o.over, o.copied = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(o.copied)
		segment.Copy(pipes, writers, o.over)
	}()
	return ends, nil
}

// finish waits until everything that the task said has been written. The task has ended.
func (o *output) finish() {
	if o.over != nil {
		close(o.over)
		<-o.copied
	}
}
