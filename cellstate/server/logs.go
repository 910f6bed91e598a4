package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers/reconcile"
)

// logRelay carries the log of one attempt from the agent's stream to the caller's.
type logRelay struct {
	opened chan struct{} // closed when the agent has begun to answer
	chunks chan *ohmv1.LogChunk
	done   <-chan struct{} // the caller has gone
	err    error           // why chunks was closed, read after that; nil: the log is over
}

// Logs relays the log of one attempt from the agent that has it, and then, to a caller who
// follows the slot, that of each attempt after it.
func (s *jobs) Logs(req *ohmv1.LogsRequest, stream grpc.ServerStreamingServer[ohmv1.LogChunk]) error {
	ctx := stream.Context()
	switch req.GetStream() {
	case "", stdoutName, stderrName:
	default:
		return refuse(errInvalid, "stream %q is not one of stdout, stderr", req.GetStream())
	}
	if from := req.GetFrom(); req.GetTail() < 0 || from.GetStdout() < 0 || from.GetStderr() < 0 {
		return refuse(errInvalid, "a place in a log cannot be negative")
	}
	if _, err := s.snapshot(ctx); err != nil {
		return err
	}
	ask := &ohmv1.LogRequest{Stream: req.GetStream(), Follow: req.GetFollow(), Since: req.GetSince(), Tail: req.Tail}
	at := place{req.GetFrom().GetVersion(), req.GetFrom().GetAttempt()}
	again := at.attempt > 0 // the attempt at that place is not over
	if again {
		ask.From, ask.Since, ask.Tail = req.GetFrom(), nil, nil
	}
	for {
		var placement *ohmv1.Placement
		var seen cellstate.Revision
		err := s.eachChange(ctx, jobName(req.GetNamespace(), req.GetJob()), func(snapshot *cellstate.Snapshot, row *cellstate.Job) (done bool, err error) {
			seen = snapshot.Revision()
			if row.Record == nil {
				return true, refuse(cellstate.ErrNotFound, "job %s not found", row.Name)
			}
			placement, err = attemptOf(row, req, at, again)
			if errors.Is(err, errNotStarted) && req.GetFollow() {
				if at.attempt == 0 && row.Live() || at.attempt > 0 && comes(snapshot, row, req, at) {
					return false, nil // its log will come
				}
				if at.attempt > 0 {
					return true, nil
				}
			}
			return true, err
		})
		if at.attempt > 0 && errors.Is(err, cellstate.ErrNotFound) && !again {
			return nil // its job has gone
		}
		if err != nil || placement == nil {
			return err
		}
		at, again = place{placement.GetSlot().GetVersion(), placement.GetAttempt()}, false
		goesOn := req.GetFollow() && req.GetAttempt() == 0
		if err := s.gateway.relay(ctx, placement, seen, ask, stream.Send); err != nil {
			if !goesOn || !s.replaced(req, at) || !errors.Is(err, errUnavailable) && !errors.Is(err, cellstate.ErrNotFound) {
				return err
			}
			note := fmt.Sprintf("the rest of attempt %d cannot be had: %v", at.attempt, err)
			if err := stream.Send(&ohmv1.LogChunk{Version: at.version, Attempt: at.attempt, Note: note}); err != nil {
				return err
			}
		}
		if !goesOn {
			return nil
		}
		ask = &ohmv1.LogRequest{Stream: req.GetStream(), Follow: true} // the whole of what follows
	}
}

// replaced says whether the task has had another attempt since.
func (s *jobs) replaced(req *ohmv1.LogsRequest, at place) bool {
	row, err := find(s.cfg.Mirror.Snapshot(), jobName(req.GetNamespace(), req.GetJob()))
	if err != nil {
		return false
	}
	next, err := attemptOf(row, req, at, false)
	return err == nil && next != nil
}

// The streams of a log.
const (
	stdoutName = "stdout"
	stderrName = "stderr"
)

// place is an attempt among those of all versions of a task.
type place struct {
	version int64
	attempt int32
}

func (p place) before(q place) bool {
	return p.version < q.version || p.version == q.version && p.attempt < q.attempt
}

// comes says whether the task will have another attempt after one that is over.
func comes(s *cellstate.Snapshot, row *cellstate.Job, req *ohmv1.LogsRequest, after place) bool {
	group, index, err := meant(row, req)
	if err != nil || !row.Live() {
		return false
	}
	name := fmt.Sprintf("%s/%s/%d", row.Name.Name, group.GetName(), index)
	for _, t := range reconcile.Tasks(s, row, time.Now(), false) {
		if t.GetTask() != name {
			continue
		}
		if state := t.GetState(); state == reconcile.Pending || after.before(place{t.GetVersion(), t.GetAttempt()}) {
			return true
		}
		if t.GetVersion() == after.version && t.GetAttempt() == after.attempt && !ended(t) {
			return true // its agent has seen its end, the cell has not
		}
	}
	return false
}

func ended(t *ohmv1.TaskView) bool {
	for _, state := range []ohmv1.TaskState{task.Succeeded, task.Failed, task.Stopped, task.Lost} {
		if t.GetState() == task.Name(state) {
			return true
		}
	}
	return false
}

// errNotStarted says that a task has had no attempt so far.
var errNotStarted = refuse(errPrecondition, "the task has not been placed on a node yet, so there is no log")

// meant is the task that a request means.
func meant(j *cellstate.Job, req *ohmv1.LogsRequest) (group *ohmv1.Group, index int, err error) {
	spec := j.Record.GetSpec()
	group = j.Group(req.GetGroup())
	switch {
	case req.GetGroup() == "" && len(spec.GetGroups()) == 1:
		group = spec.GetGroups()[0]
	case req.GetGroup() == "":
		return nil, 0, refuse(errInvalid, "job %s has several groups (%s); name the task: %s/GROUP/INDEX", j.Name, groupNames(spec), j.Name.Name)
	case group == nil:
		return nil, 0, refuse(cellstate.ErrNotFound, "job %s has no group %s; it has %s", j.Name, req.GetGroup(), groupNames(spec))
	}
	index = int(req.GetIndex())
	count, system := int(group.GetCount()), spec.GetKind() == "system"
	switch {
	case req.GetAnyIndex() && (count > 1 || system):
		return nil, 0, refuse(errInvalid, "group %s has several tasks; name one: %s/%s/INDEX", group.GetName(), j.Name.Name, group.GetName())
	case req.GetAnyIndex():
		index = 0
	case index < 0 || index >= count && !system:
		return nil, 0, refuse(cellstate.ErrNotFound, "group %s of job %s has no task %d; it has %s", group.GetName(), j.Name, index, indexes(count))
	}
	return group, index, nil
}

// attemptOf finds the attempt that a request means: of the newest version of the slot that
// has any the newest; or, to go on from a place, the one there, or the first one after it.
func attemptOf(j *cellstate.Job, req *ohmv1.LogsRequest, from place, there bool) (*ohmv1.Placement, error) {
	group, index, err := meant(j, req)
	if err != nil {
		return nil, err
	}
	var found *ohmv1.Placement
	known := false
	look := func(p *ohmv1.Placement) (done bool) {
		at := place{p.GetSlot().GetVersion(), p.GetAttempt()}
		switch {
		case req.GetAttempt() != 0 && req.GetAttempt() != p.GetAttempt(), there && at.before(from), from.attempt > 0 && !there && !from.before(at):
			return false
		}
		found = p
		return from.attempt > 0
	}
	for _, t := range j.Tasks { // versions ascending
		if t.Slot.Group != group.GetName() || t.Slot.Index != index || from.attempt > 0 && found != nil {
			continue
		}
		known = true
		for _, e := range t.Ended {
			if look(e.GetPlacement()) {
				break
			}
		}
		if p := t.Placement; p != nil && (from.attempt == 0 || found == nil) {
			look(p.Record())
		}
	}
	switch {
	case found != nil:
		return found, nil
	case known && from.attempt == 0:
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

// relay asks the agent for the log of a placement that was seen at a revision, and sends what
// it answers.
func (g *gateway) relay(ctx context.Context, p *ohmv1.Placement, seen cellstate.Revision, req *ohmv1.LogRequest, send func(*ohmv1.LogChunk) error) error {
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
	if err := g.caughtUp(patient, s, seen); err != nil { // or the agent would not know the task yet
		return err
	}
	req = proto.CloneOf(req)
	req.Id, req.TaskId = id, cellstate.TaskID(p)
	if err := s.ask(patient, &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Logs{Logs: req}}); err != nil {
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
			if len(chunk.GetData()) > 0 || chunk.GetDropped() > 0 {
				chunk.Id, chunk.Version, chunk.Attempt = "", p.GetSlot().GetVersion(), p.GetAttempt()
				if err := send(chunk); err != nil {
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

// lastWord is what an agent's last chunk says of a log that cannot be read on.
func lastWord(chunk *ohmv1.LogChunk) error {
	switch {
	case chunk.GetExpired() != nil:
		return refuse(cellstate.ErrNotFound, "the log expired at %s", chunk.GetExpired().AsTime().Format(time.RFC3339))
	case chunk.GetGone():
		return refuse(cellstate.ErrNotFound, "the log is not there, or not any more: %s", chunk.GetError())
	}
	return refuse(errUnavailable, "the log cannot be read on: %s", chunk.GetError())
}

// elsewhere says why nothing can be had of a task here: only its node has it.
func (g *gateway) elsewhere(node string) error {
	row := g.server.cfg.Mirror.Snapshot().Node(cellstate.NodeName(node))
	if row == nil || row.Alive == nil || row.Alive.GetServer() == g.server.cfg.Name {
		return refuse(errUnavailable, "the task is on node %s, whose agent has no session now", node)
	}
	return refuse(errUnavailable, "the task is on node %s, whose session server %s holds; ask that one", node, row.Alive.GetServer())
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
			r.err = lastWord(chunk)
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
