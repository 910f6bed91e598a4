package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"

	"github.com/ohmcell/ohm/cellstate"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// logRelay carries the log of one attempt from the agent's stream to the caller's.
type logRelay struct {
	opened chan struct{} // closed when the agent has begun to answer
	chunks chan *ohmv1.LogChunk
	done   <-chan struct{} // the caller has gone
	err    error           // why chunks was closed, read after that; nil: the log is over
}

// Logs relays the log of one attempt from the agent that has it.
func (s *jobs) Logs(req *ohmv1.LogsRequest, stream grpc.ServerStreamingServer[ohmv1.LogChunk]) error {
	ctx := stream.Context()
	switch req.GetStream() {
	case "", "stdout", "stderr":
	default:
		return refuse(errInvalid, "stream %q is not one of stdout, stderr", req.GetStream())
	}
	if _, err := s.snapshot(ctx); err != nil {
		return err
	}
	var placement *ohmv1.Placement
	err := s.eachChange(ctx, jobName(req.GetNamespace(), req.GetJob()), func(_ *cellstate.Snapshot, row *cellstate.Job) (done bool, err error) {
		placement, err = attemptOf(row, req)
		waits := errors.Is(err, errNotStarted) && req.GetFollow() && row.Live() // its log will come
		if waits {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return err
	}
	return s.gateway.relay(ctx, placement, req, stream.Send)
}

// errNotStarted says that a task has had no attempt so far.
var errNotStarted = refuse(errPrecondition, "the task has not been placed on a node yet, so there is no log")

// attemptOf finds the attempt that a request means: of the newest version of the slot
// that has any.
func attemptOf(j *cellstate.Job, req *ohmv1.LogsRequest) (*ohmv1.Placement, error) {
	spec := j.Record.GetSpec()
	group := j.Group(req.GetGroup())
	switch {
	case req.GetGroup() == "" && len(spec.GetGroups()) == 1:
		group = spec.GetGroups()[0]
	case req.GetGroup() == "":
		return nil, refuse(errInvalid, "job %s has several groups (%s); name the task: %s/GROUP/INDEX", j.Name, groupNames(spec), j.Name.Name)
	case group == nil:
		return nil, refuse(cellstate.ErrNotFound, "job %s has no group %s; it has %s", j.Name, req.GetGroup(), groupNames(spec))
	}
	index := int(req.GetIndex())
	count, system := int(group.GetCount()), spec.GetKind() == "system"
	switch {
	case req.GetAnyIndex() && (count > 1 || system):
		return nil, refuse(errInvalid, "group %s has several tasks; name one: %s/%s/INDEX", group.GetName(), j.Name.Name, group.GetName())
	case req.GetAnyIndex():
		index = 0
	case index < 0 || index >= count && !system:
		return nil, refuse(cellstate.ErrNotFound, "group %s of job %s has no task %d; it has %s", group.GetName(), j.Name, index, indexes(count))
	}
	var newest *ohmv1.Placement
	known := false
	for _, t := range j.Tasks { // versions ascending
		if t.Slot.Group != group.GetName() || t.Slot.Index != index {
			continue
		}
		known = true
		for _, e := range t.Ended {
			if req.GetAttempt() == 0 || int(req.GetAttempt()) == e.Attempt {
				newest = e.GetPlacement()
			}
		}
		if p := t.Placement; p != nil && (req.GetAttempt() == 0 || req.GetAttempt() == p.GetAttempt()) {
			newest = p.Record()
		}
	}
	switch {
	case newest != nil:
		return newest, nil
	case known:
		return nil, refuse(cellstate.ErrNotFound, "task %s/%s/%d has no attempt %d, or not any more", j.Name, group.GetName(), index, req.GetAttempt())
	}
	return nil, errNotStarted
}

// indexes says which tasks a group of that count has.
func indexes(count int) string {
	switch count {
	case 0:
		return "none"
	case 1:
		return "only task 0"
	}
	return fmt.Sprintf("tasks 0 to %d", count-1)
}

func groupNames(spec *ohmv1.JobSpec) string {
	var names []string
	for _, g := range spec.GetGroups() {
		names = append(names, g.GetName())
	}
	return strings.Join(names, ", ")
}

// relay asks the agent for a log and sends what it answers.
func (g *gateway) relay(ctx context.Context, p *ohmv1.Placement, req *ohmv1.LogsRequest, send func(*ohmv1.LogChunk) error) error {
	s := g.session(cellstate.NodeName(p.GetNode()))
	if s == nil {
		return g.elsewhere(p.GetNode())
	}
	r := &logRelay{opened: make(chan struct{}), chunks: make(chan *ohmv1.LogChunk, 8), done: ctx.Done()}
	id := ulid.Make().String()
	g.mu.Lock()
	g.logs[id] = r
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		delete(g.logs, id)
		g.mu.Unlock()
	}()
	patient, cancel := context.WithTimeoutCause(ctx, g.server.cfg.Limits.Slow,
		refuse(errUnavailable, "the agent of node %s does not answer", p.GetNode()))
	defer cancel()
	err := s.ask(patient, &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Logs{Logs: &ohmv1.LogRequest{
		Id: id, TaskId: cellstate.TaskID(p), Stream: req.GetStream(), Follow: req.GetFollow(),
	}}})
	if err != nil {
		return err
	}
	select {
	case <-r.opened:
	case <-s.ctx.Done():
		return refuse(errUnavailable, "the session of node %s ended before its agent answered", p.GetNode())
	case <-patient.Done():
		return context.Cause(patient)
	}
	for {
		select {
		case chunk, more := <-r.chunks:
			if !more {
				return r.err
			}
			if len(chunk.GetData()) > 0 {
				if err := send(&ohmv1.LogChunk{Stream: chunk.GetStream(), Data: chunk.GetData()}); err != nil {
					return err
				}
			}
		case <-g.closing:
			return errClosing
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// elsewhere says why a log cannot be had here: it stays with the node.
func (g *gateway) elsewhere(node string) error {
	row := g.server.cfg.Mirror.Snapshot().Node(cellstate.NodeName(node))
	if row == nil || row.Alive == nil || row.Alive.GetServer() == g.server.cfg.Name {
		return refuse(errUnavailable, "the log is on node %s, whose agent has no session now", node)
	}
	return refuse(errUnavailable, "the log is on node %s, whose session server %s holds; ask that one", node, row.Alive.GetServer())
}

// PushLogs takes in an agent's answer to one LogRequest. Its first chunk names the
// request; an empty log is one chunk without data. It ends as soon as nobody wants the
// log any more, also while the agent has nothing to say.
func (n *nodes) PushLogs(stream grpc.ClientStreamingServer[ohmv1.LogChunk, ohmv1.PushLogsResponse]) error {
	g := n.gateway
	if err := g.open(); err != nil {
		return err
	}
	defer g.streams.Done()
	claimed, over := make(chan *logRelay, 1), make(chan error, 1)
	g.streams.Go(func() { g.pump(stream, claimed, over) }) // ends with the stream at the latest
	var unwanted <-chan struct{}
	for {
		select {
		case r := <-claimed:
			unwanted = r.done
			continue
		case <-unwanted:
		case <-g.closing:
			return errClosing
		case err := <-over:
			over <- err
		}
		select { // a log that is over is no longer wanted, either
		case err := <-over:
			if err != nil {
				return err
			}
			return stream.SendAndClose(&ohmv1.PushLogsResponse{})
		default:
			return refuse(cellstate.ErrNotFound, "nobody waits for this log any more")
		}
	}
}

// pump hands what an agent pushes to the relay that its first chunk names. How that
// went is in over before the relay's chunks are closed.
func (g *gateway) pump(stream grpc.ClientStreamingServer[ohmv1.LogChunk, ohmv1.PushLogsResponse], claimed chan<- *logRelay, over chan<- error) {
	chunk, err := stream.Recv()
	if err != nil {
		over <- err
		return
	}
	g.mu.Lock()
	r := g.logs[chunk.GetId()]
	delete(g.logs, chunk.GetId())
	g.mu.Unlock()
	if r == nil {
		over <- refuse(cellstate.ErrNotFound, "nobody waits for log %q any more", chunk.GetId())
		return
	}
	claimed <- r
	close(r.opened)
	defer close(r.chunks)
	for ; err == nil; chunk, err = stream.Recv() {
		if chunk.GetError() != "" { // the agent's last word
			r.err = refuse(errUnavailable, "the log cannot be read on: %s", chunk.GetError())
			over <- nil
			return
		}
		select {
		case r.chunks <- chunk:
		case <-stream.Context().Done(): // Recv will say so
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	} else {
		r.err = refuse(errUnavailable, "the agent broke off in the middle of the log: %v", err)
	}
	over <- err
}
