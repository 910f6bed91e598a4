package containerd

import (
	"context"
	"fmt"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
)

// seen is what containerd says of one container's process.
type seen struct {
	there   bool // there is a process, or was one that ended
	running bool // its ohm-init was started and has not ended
	created bool // its shim knows of no start; one that was cut short may have worked all the same
	pid     int  // of its ohm-init; 0: none any more
	status  int  // as a shell has it
	at      time.Time
}

// looker says how a container stands.
type looker func(ctx context.Context, container string) (seen, error)

// look asks containerd about one container.
func (d *Driver) look(ctx context.Context, container string) (seen, error) {
	r, err := d.client.TaskService().Get(ctx, &tasksapi.GetRequest{ContainerID: container})
	if err != nil {
		if err = errgrpc.ToNative(err); errdefs.IsNotFound(err) {
			return seen{}, nil
		}
		return seen{}, fmt.Errorf("ask containerd: %w", err)
	}
	if r.Process.Status == tasktypes.Status_UNKNOWN {
		return seen{}, errSilent
	}
	return seenOf(r.Process), nil
}

// errSilent says nothing of the container: what containerd says of one of which the shim has
// not answered within two seconds is neither that it runs nor that it does not.
var errSilent = fmt.Errorf("its shim does not answer containerd: %w", errdefs.ErrUnavailable)

// lookAll asks once about all containers.
func (d *Driver) lookAll(ctx context.Context) (looker, error) {
	r, err := d.client.TaskService().List(ctx, &tasksapi.ListTasksRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask containerd: %w", errgrpc.ToNative(err))
	}
	all := map[string]seen{}
	for _, p := range r.Tasks {
		if p.Status != tasktypes.Status_UNKNOWN {
			all[p.ID] = seenOf(p)
		}
	}
	return func(ctx context.Context, container string) (seen, error) {
		if s, ok := all[container]; ok {
			return s, nil
		}
		return d.look(ctx, container) // newer than the list, perhaps
	}, nil
}

func seenOf(p *tasktypes.Process) seen {
	return seen{
		there: true, created: p.Status == tasktypes.Status_CREATED,
		running: p.Status != tasktypes.Status_STOPPED && p.Status != tasktypes.Status_CREATED,
		pid:     int(p.Pid), status: int(p.ExitStatus), at: p.ExitedAt.AsTime().UTC(),
	}
}
