package containerd

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/events"
	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver/folder"
)

// rescan is how often Watch looks for what no event has told.
const rescan = time.Second

// Watch names every task once when it is first seen, and again whenever containerd speaks of
// it and when its end is written down. It also gives back what is nobody's, once, and counts
// kills for memory. It returns nil when ctx ends.
func (d *Driver) Watch(ctx context.Context, changed func(id string)) error {
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	known := map[string]bool{} // by id: its end is written down
	news, broken := d.client.EventService().Subscribe(ctx, d.filter())
	for ctx.Err() == nil {
		d.sweepOnce(ctx)
		if err := folder.Sweep(d.tasks); err != nil {
			d.log.Warn("what a start left that was cut short cannot be given back", zap.Error(err))
		}
		ids, err := folder.IDs(d.tasks)
		if err != nil {
			return err
		}
		here := map[string]string{} // by hash
		for _, id := range ids {
			here[hash(id)] = id
			ended := folder.Exists(d.folder(id) + "/" + exitFile)
			if was, seen := known[id]; !seen && d.began(id) || seen && was != ended {
				known[id] = ended
				changed(id)
			}
			if !ended {
				d.noteOOMs(id)
				d.mendNetwork(ctx, id)
			}
		}
		for id := range known {
			if here[hash(id)] == "" {
				delete(known, id)
			}
		}
		select {
		case e := <-news:
			if id := here[taskOf(e)]; id != "" {
				changed(id)
			}
		case <-broken: // the daemon ends, or ctx does
			broken = nil
		case <-tick.C:
			if broken == nil {
				news, broken = d.client.EventService().Subscribe(ctx, d.filter())
			}
			for id, ended := range known {
				if !ended && !d.running(ctx, id) {
					changed(id) // its event was missed
				}
			}
		case <-ctx.Done():
		}
	}
	return nil
}

// filter of containerd's events: what befalls processes in the agent's namespace.
func (d *Driver) filter() string {
	return `namespace==` + d.namespace + `,topic~=|^/tasks/|`
}

// began says whether there is something to be seen of the task.
func (d *Driver) began(id string) bool {
	dir := d.folder(id) + "/"
	return folder.Exists(dir+stateFile) || folder.Exists(dir+exitFile)
}

// running says whether containerd still has the main process of the task.
func (d *Driver) running(ctx context.Context, id string) bool {
	st, err := d.readState(id)
	if err != nil {
		return true
	}
	s, err := d.look(ctx, st.container(id, mainOf(d.folder(id))))
	return err != nil || s.running || s.created
}

// taskOf is the hash of the task whose container an event speaks of.
func taskOf(e *events.Envelope) string {
	if e == nil {
		return ""
	}
	container, _ := e.Field([]string{"event", "container_id"})
	if len(container) < 32 {
		return ""
	}
	return container[:32]
}

func (d *Driver) busyFetching() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.fetches) > 0
}

// unclean has Watch sweep again.
func (d *Driver) unclean() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clean = false
}

// sweepOnce sweeps until that has worked once.
func (d *Driver) sweepOnce(ctx context.Context) {
	d.mu.Lock()
	clean := d.clean
	d.mu.Unlock()
	if clean {
		return
	}
	if d.busyFetching() {
		return // part of what looks like a rest is in the making
	}
	if err := d.sweep(ctx); err != nil {
		if ctx.Err() == nil {
			d.log.Warn("what is left of earlier tasks cannot all be given back", zap.Error(err))
		}
		return
	}
	d.mu.Lock()
	d.clean = true
	d.mu.Unlock()
}
