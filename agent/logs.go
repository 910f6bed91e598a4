package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// chunkSize is the most bytes of a log in one message.
const chunkSize = 32 << 10

// goodbye is how long a server may take to end a push that is complete.
const goodbye = 10 * time.Second

// pushLogs answers a request for logs in a goroutine of its own.
func (l *loop) pushLogs(ctx context.Context, req *ohmv1.LogRequest) {
	p := push{
		driver: l.Driver, req: req, poll: l.LogPoll,
		missing: fmt.Sprintf("node %s knows no task %s", l.Node.GetName(), req.GetTaskId()),
	}
	if e := l.tasks[req.GetTaskId()]; e != nil {
		p.known, p.over = true, e.over
	} else {
		over := make(chan struct{})
		close(over)
		p.over = over
	}
	if l.pushes >= l.LogPushes {
		p.refused = fmt.Sprintf("node %s sends %d logs already", l.Node.GetName(), l.pushes)
	}
	l.pushes++
	go func() {
		if err := p.run(ctx, l.nodes); err != nil && ctx.Err() == nil {
			l.Log.Info("a log push was cut short", zap.String("task", req.GetTaskId()), zap.Error(err))
		}
		l.pushed <- struct{}{}
	}()
}

// push is one answer to one request.
type push struct {
	driver  driver.Driver
	req     *ohmv1.LogRequest
	known   bool            // the agent knows the task, even if it has no logs yet
	over    <-chan struct{} // closed when no more will be logged
	poll    time.Duration
	missing string // what to say of a task that nobody knows
	refused string // not empty: say only this
}

// run sends until all is sent, or the server or ctx ends it.
func (p *push) run(ctx context.Context, nodes ohmv1.NodesClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := nodes.PushLogs(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := stream.RecvMsg(new(ohmv1.PushLogsResponse)) // when the server has had enough
		cancel()
		ended <- err
	}()
	err = p.send(ctx, stream)
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		last := time.AfterFunc(goodbye, cancel)
		defer last.Stop()
	} else {
		cancel()
	}
	if said := <-ended; said != nil {
		return said
	}
	return nil // the server has all it wants
}

// send sends the id, so that the server knows at once whose answer this is, and then the
// streams, a chunk of each in turn.
func (p *push) send(ctx context.Context, stream ohmv1.Nodes_PushLogsClient) error {
	if err := stream.Send(&ohmv1.LogChunk{Id: p.req.GetId()}); err != nil {
		return err
	}
	fail := func(text string) error { return stream.Send(&ohmv1.LogChunk{Error: text}) }
	if p.refused != "" {
		return fail(p.refused)
	}
	names := []string{"stdout", "stderr"}
	if s := p.req.GetStream(); s != "" {
		names = []string{s}
	}
	readers := make([]io.ReadCloser, len(names))
	defer func() {
		for _, r := range readers {
			if r != nil {
				_ = r.Close()
			}
		}
	}()
	buf := make([]byte, chunkSize)
	over := p.over
	for {
		last := !p.req.GetFollow() || over == nil // known before reading: nothing comes after it
		if over != nil {
			select {
			case <-over:
				over, last = nil, true
			default:
			}
		}
		more := false
		for i, name := range names {
			if readers[i] == nil {
				r, err := p.driver.Logs(ctx, p.req.GetTaskId(), name)
				switch {
				case err == nil:
					readers[i] = r
				case !errors.Is(err, fs.ErrNotExist):
					return fail(err.Error())
				case !p.known:
					return fail(p.missing)
				default:
					continue
				}
			}
			n, err := readers[i].Read(buf)
			if n > 0 {
				more = true
				if err := stream.Send(&ohmv1.LogChunk{Stream: name, Data: bytes.Clone(buf[:n])}); err != nil {
					return err
				}
			}
			if err != nil && err != io.EOF {
				return fail(err.Error())
			}
		}
		switch {
		case more:
		case last:
			return nil
		default:
			wait := time.NewTimer(p.poll)
			select {
			case <-ctx.Done():
			case <-over:
			case <-wait.C:
			}
			wait.Stop()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
