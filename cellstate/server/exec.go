package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// execRelay carries one program's input and output between its caller and its agent.
type execRelay struct {
	opened chan struct{} // closed when the agent has begun to answer
	in     chan *ohmv1.ExecInput
	out    chan *ohmv1.ExecOutput
	done   <-chan struct{} // the caller has gone
	err    error           // why out was closed without an end, read after that
}

// execsMost is how many programs a server carries at the same time.
const execsMost = 128

// Exec runs a program in a running task, by way of the agent that has it.
func (s *jobs) Exec(stream grpc.BidiStreamingServer[ohmv1.ExecInput, ohmv1.ExecOutput]) error {
	ctx := stream.Context()
	if err := s.gateway.open(); err != nil {
		return err
	}
	defer s.gateway.streams.Done()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil || len(start.GetCommand()) == 0 || start.GetCommand()[0] == "" {
		return refuse(errInvalid, "there is no command to run")
	}
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return err
	}
	name := jobName(start.GetNamespace(), start.GetJob())
	row, err := find(snapshot, name)
	if err != nil {
		return err
	}
	p, err := liveOf(row, start)
	if err != nil {
		return err
	}
	record := &ohmv1.ExecRecord{
		Time: timestamppb.Now(), Who: caller(ctx), Namespace: name.Namespace, Task: cellstate.SlotOf(p.GetSlot()).Task(), Attempt: p.GetAttempt(),
		Node: p.GetNode(), Container: start.GetContainer(), Command: shortened(start.GetCommand()), Terminal: start.GetTerminal(),
		Id: ulid.Make().String(), Server: s.cfg.Name,
	}
	if !s.gateway.execs.begin(record.GetId()) {
		return refuse(errUnavailable, "this server carries %d programs already", execsMost)
	}
	defer s.gateway.execs.end(record.GetId())
	if err := s.execBegins(ctx, record); err != nil {
		return fmt.Errorf("nothing is run of which there would be no record: %w", err)
	}
	end, err := s.gateway.exec(ctx, p, start, stream)
	s.execEnded(ctx, record, start.GetCommand(), end, err)
	if err != nil {
		return err
	}
	return stream.Send(&ohmv1.ExecOutput{End: end})
}

// caller is who asks, as far as that is known: every caller shows the same token.
func caller(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}

// liveOf is the live placement of the task that a request means, of its newest version.
func liveOf(j *cellstate.Job, start *ohmv1.ExecStart) (*ohmv1.Placement, error) {
	group, index, err := meant(j, &ohmv1.LogsRequest{Group: start.GetGroup(), Index: start.GetIndex(), AnyIndex: start.GetAnyIndex()})
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(j.Tasks) {
		if t.Slot.Group == group.GetName() && t.Slot.Index == index && t.Placement != nil {
			return t.Placement.Record(), nil
		}
	}
	return nil, refuse(errPrecondition, "task %s/%s/%d does not run", j.Name, group.GetName(), index)
}

// exec asks the agent, and carries what both sides say until the program has ended. How that
// was is still to be told to the caller.
func (g *gateway) exec(ctx context.Context, p *ohmv1.Placement, start *ohmv1.ExecStart, caller grpc.BidiStreamingServer[ohmv1.ExecInput, ohmv1.ExecOutput]) (*ohmv1.ExecEnd, error) {
	s := g.session(cellstate.NodeName(p.GetNode()))
	if s == nil {
		return nil, g.elsewhere(p.GetNode())
	}
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	r := &execRelay{opened: make(chan struct{}), in: make(chan *ohmv1.ExecInput), out: make(chan *ohmv1.ExecOutput), done: ctx.Done()}
	id := ulid.Make().String()
	g.execs.wait(id, r)
	defer g.execs.take(id)
	patient, cancel := context.WithTimeoutCause(ctx, g.server.cfg.Limits.Slow,
		refuse(errUnavailable, "the agent of node %s does not answer", p.GetNode()))
	defer cancel()
	if err := s.ask(patient, &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Exec{Exec: &ohmv1.ExecRequest{
		Id: id, TaskId: cellstate.TaskID(p), Start: start,
	}}}); err != nil {
		return nil, err
	}
	select {
	case <-r.opened:
	case <-s.ctx.Done():
		return nil, refuse(errUnavailable, "the session of node %s ended before its agent answered", p.GetNode())
	case <-patient.Done():
		return nil, context.Cause(patient)
	}
	g.streams.Go(func() { // ends with the caller's stream
		for {
			in, err := caller.Recv()
			last := errors.Is(err, io.EOF) // no more is to be heard
			if last {
				in, err = &ohmv1.ExecInput{End: true}, nil
			}
			if err != nil {
				gone()
				return
			}
			select {
			case r.in <- in:
			case <-ctx.Done():
				return
			}
			if last {
				return
			}
		}
	})
	for {
		select {
		case out, more := <-r.out:
			switch {
			case !more:
				return nil, r.err
			case out.GetEnd().GetNotRunning():
				return nil, refuse(errPrecondition, "%s", out.GetEnd().GetError())
			case out.GetEnd().GetError() != "":
				return nil, refuse(errPrecondition, "the program did not run: %s", out.GetEnd().GetError())
			case out.GetEnd() != nil:
				return out.GetEnd(), nil
			case len(out.GetStdout())+len(out.GetStderr()) == 0:
				continue // a sign of life
			}
			if err := caller.Send(&ohmv1.ExecOutput{Stdout: out.GetStdout(), Stderr: out.GetStderr()}); err != nil {
				return nil, err
			}
		case <-g.closing:
			return nil, errClosing
		case <-ctx.Done():
			return nil, fmt.Errorf("the caller has gone: %w", context.Canceled)
		}
	}
}

// PushExec takes in what a program says, and tells it what its caller does. It ends when the
// caller goes.
func (n *nodes) PushExec(stream grpc.BidiStreamingServer[ohmv1.ExecOutput, ohmv1.ExecInput]) error {
	g := n.gateway
	if err := g.open(); err != nil {
		return err
	}
	defer g.streams.Done()
	claimed, over := make(chan *execRelay, 1), make(chan error, 1)
	g.streams.Go(func() { over <- g.hearExec(stream, claimed) }) // ends with the stream at the latest
	var in <-chan *ohmv1.ExecInput
	var done <-chan struct{}
	for {
		select {
		case r := <-claimed:
			in, done = r.in, r.done
		case m := <-in:
			if err := stream.Send(m); err != nil {
				return err
			}
		case err := <-over:
			return err
		case <-done:
			return refuse(cellstate.ErrNotFound, "nobody waits for this program any more")
		case <-g.closing:
			return errClosing
		}
	}
}

// hearExec hands what an agent says to the relay that its first message names.
func (g *gateway) hearExec(stream grpc.BidiStreamingServer[ohmv1.ExecOutput, ohmv1.ExecInput], claimed chan<- *execRelay) error {
	out, err := stream.Recv()
	if err != nil {
		return err
	}
	r := g.execs.take(out.GetId())
	if r == nil {
		return refuse(cellstate.ErrNotFound, "nobody waits for program %q any more", out.GetId())
	}
	claimed <- r
	close(r.opened)
	defer close(r.out)
	for ; err == nil; out, err = stream.Recv() {
		select {
		case r.out <- out:
		case <-r.done:
			return nil
		}
	}
	r.err = refuse(errUnavailable, "the agent broke off")
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// execs are the programs that this server carries.
type execs struct {
	mu      sync.Mutex
	waiting map[string]*execRelay // by request id, until the agent has answered
	running map[string]bool       // by the id of the record
}

func (e *execs) wait(id string, r *execRelay) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting == nil {
		e.waiting = map[string]*execRelay{}
	}
	e.waiting[id] = r
}

func (e *execs) take(id string) *execRelay {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.waiting[id]
	delete(e.waiting, id)
	return r
}

// begin refuses a program too many.
func (e *execs) begin(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.running) >= execsMost {
		return false
	}
	if e.running == nil {
		e.running = map[string]bool{}
	}
	e.running[id] = true
	return true
}

func (e *execs) end(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, id)
}

func (e *execs) carries(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[id]
}
