package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/ohmcell/ohm/agent/driver"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// execAlive is the time between two signs of life of a program that says nothing: by one
// that cannot be sent the agent learns that its caller has gone, even if the program reads
// nothing of what that one has sent.
const execAlive = 5 * time.Second

// runExec answers a request for a program in a goroutine of its own.
func (l *loop) runExec(ctx context.Context, req *ohmv1.ExecRequest) {
	x := &execution{driver: l.Driver, req: req}
	if l.execs >= l.Execs {
		x.refused = fmt.Sprintf("node %s runs %d such programs already", l.Node.GetName(), l.execs)
	}
	l.execs++
	go func() {
		if err := x.run(ctx, l.nodes); err != nil && ctx.Err() == nil {
			l.Log.Info("a program's caller has gone", zap.String("task", req.GetTaskId()), zap.Error(err))
		}
		l.executed <- struct{}{}
	}()
}

// execution is one program that runs in a task for somebody.
type execution struct {
	driver  driver.Driver
	req     *ohmv1.ExecRequest
	refused string // not empty: say only this

	mu     sync.Mutex // one sends at a time
	stream ohmv1.Nodes_PushExecClient
}

// run returns when the program has ended, which it does with its caller, or with ctx.
func (x *execution) run(ctx context.Context, nodes ohmv1.NodesClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if x.stream, err = nodes.PushExec(ctx); err != nil {
		return err
	}
	if err := x.send(&ohmv1.ExecOutput{Id: x.req.GetId()}); err != nil {
		return err
	}
	input, typed := io.Pipe()
	resize := make(chan driver.Size)
	heard := make(chan error, 1)
	go func() {
		err := x.hear(ctx, typed, resize)
		cancel() // whoever has asked for it has gone, or knows how it ended
		heard <- err
	}()
	alive := make(chan struct{})
	go func() {
		defer close(alive)
		for ctx.Err() == nil {
			pause(ctx, execAlive)
			if ctx.Err() == nil && x.send(&ohmv1.ExecOutput{}) != nil {
				cancel()
			}
		}
	}()
	end := x.execute(ctx, input, resize)
	_ = input.CloseWithError(io.ErrClosedPipe) // hear is not to wait for a reader
	err = x.send(&ohmv1.ExecOutput{End: end})
	if err == nil {
		err = x.stream.CloseSend()
	}
	if err == nil {
		last := time.AfterFunc(goodbye, cancel)
		defer last.Stop()
	} else {
		cancel()
	}
	if said := <-heard; err == nil && said != nil && !errors.Is(said, io.EOF) {
		err = said
	}
	<-alive
	return err
}

// execute runs the program.
func (x *execution) execute(ctx context.Context, input io.Reader, resize <-chan driver.Size) *ohmv1.ExecEnd {
	if x.refused != "" {
		return &ohmv1.ExecEnd{Error: x.refused}
	}
	start := x.req.GetStart()
	e := driver.Exec{
		Container: start.GetContainer(), Command: start.GetCommand(), Terminal: start.GetTerminal(), Resize: resize,
		Stdout: output(func(p []byte) error { return x.send(&ohmv1.ExecOutput{Stdout: p}) }),
		Stderr: output(func(p []byte) error { return x.send(&ohmv1.ExecOutput{Stderr: p}) }),
	}
	if start.GetStdin() {
		e.Stdin = input
	}
	code, err := x.driver.Exec(ctx, x.req.GetTaskId(), e)
	if err != nil {
		return &ohmv1.ExecEnd{Error: err.Error(), NotRunning: errors.Is(err, driver.ErrNotRunning)}
	}
	return &ohmv1.ExecEnd{Code: int32(code)}
}

func (x *execution) send(out *ohmv1.ExecOutput) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stream.Send(out)
}

// hear passes on what the caller sends until it goes.
func (x *execution) hear(ctx context.Context, typed *io.PipeWriter, resize chan<- driver.Size) error {
	defer typed.Close()
	if size := x.req.GetStart().GetSize(); size != nil {
		x.sized(ctx, resize, size)
	}
	for {
		in, err := x.stream.Recv()
		if err != nil {
			return err
		}
		if size := in.GetSize(); size != nil {
			x.sized(ctx, resize, size)
		}
		if len(in.GetStdin()) > 0 && x.req.GetStart().GetStdin() {
			_, _ = typed.Write(in.GetStdin()) // what nobody reads any more is dropped
		}
		if in.GetEnd() {
			typed.Close()
		}
	}
}

func (x *execution) sized(ctx context.Context, resize chan<- driver.Size, size *ohmv1.TerminalSize) {
	if !x.req.GetStart().GetTerminal() {
		return
	}
	select {
	case resize <- driver.Size{Columns: uint16(size.GetColumns()), Rows: uint16(size.GetRows())}:
	case <-ctx.Done():
	case <-time.After(time.Second): // the program has ended, or does not begin
	}
}

// output sends what is written to it, in messages that are not too long.
type output func([]byte) error

func (o output) Write(p []byte) (n int, err error) {
	for len(p) > n {
		part := append([]byte(nil), p[n:min(n+chunkSize, len(p))]...)
		if err := o(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}
