package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

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
	e := l.tasks[req.GetTaskId()]
	if e != nil {
		e.readers++
		p.known, p.over, p.expired = e.memo.Expired.IsZero(), e.over, e.memo.Expired
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
		l.pushed <- e
	}()
}

// read takes note that logs, of a task if one is known, are not read any more.
func (l *loop) read(e *entry) {
	l.pushes--
	if e != nil {
		e.readers--
		l.unpruned = true
	}
}

// push is one answer to one request.
type push struct {
	driver  driver.Driver
	req     *ohmv1.LogRequest
	known   bool            // the agent knows the task, even if it has no logs yet
	over    <-chan struct{} // closed when no more will be logged
	poll    time.Duration
	expired time.Time // when the task's logs were removed; zero: they were not
	missing string    // what to say of a task that nobody knows
	refused string    // not empty: say only this
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
	if p.refused != "" {
		return stream.Send(&ohmv1.LogChunk{Error: p.refused})
	}
	streams := p.streams()
	defer func() {
		for _, s := range streams {
			s.close()
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
		for _, s := range streams {
			chunk, err := s.read(ctx, p, buf)
			if chunk != nil {
				more = true
				if err := stream.Send(chunk); err != nil {
					return err
				}
			}
			if err != nil {
				return stream.Send(p.failure(err))
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

// errMissing says that nobody knows the task.
var errMissing = errors.New("no such task")

// failure is the last word on a log that cannot be read on.
func (p *push) failure(err error) *ohmv1.LogChunk {
	if errors.Is(err, errMissing) && !p.expired.IsZero() {
		return &ohmv1.LogChunk{Error: "the log has expired", Gone: true, Expired: timestamppb.New(p.expired)}
	}
	if errors.Is(err, errMissing) {
		return &ohmv1.LogChunk{Error: p.missing, Gone: true}
	}
	return &ohmv1.LogChunk{Error: err.Error()}
}

// streamed is one stream of a push.
type streamed struct {
	name string
	from driver.From
	log  driver.Log // nil: not there yet
	at   int64      // what was sent, or said to be missing, of the stream
}

// streams are what is asked for, each from where it is to begin.
func (p *push) streams() []*streamed {
	var from driver.From
	if since := p.req.GetSince(); since != nil {
		from.Since = since.AsTime()
	}
	if p.req.Tail != nil {
		if from.Tail = int(p.req.GetTail()); from.Tail <= 0 {
			from.Tail = -1
		}
	}
	var streams []*streamed
	for name, offset := range map[string]int64{"stdout": p.req.GetFrom().GetStdout(), "stderr": p.req.GetFrom().GetStderr()} {
		if only := p.req.GetStream(); only == "" || only == name {
			s := &streamed{name: name, from: from, at: offset}
			s.from.Offset = offset
			streams = append(streams, s)
		}
	}
	slices.SortFunc(streams, func(a, b *streamed) int { return strings.Compare(b.name, a.name) })
	return streams
}

func (s *streamed) close() {
	if s.log != nil {
		_ = s.log.Close() // it was read only
	}
}

// read is the next chunk, which says of what comes before it how much is missing; nil where
// there is nothing more for now.
func (s *streamed) read(ctx context.Context, p *push, buf []byte) (*ohmv1.LogChunk, error) {
	if s.log == nil {
		log, err := p.driver.Logs(ctx, p.req.GetTaskId(), s.name, s.from)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !p.known:
			return nil, errMissing
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		}
		if s.log = log; s.from.Tail != 0 || !s.from.Since.IsZero() {
			s.at = log.Offset() // what comes before is not wanted
		}
	}
	n, err := s.log.Read(buf)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	at := s.log.Offset()
	chunk := &ohmv1.LogChunk{Stream: s.name, Data: bytes.Clone(buf[:n]), Offset: at - int64(n)}
	chunk.Dropped = chunk.Offset - s.at
	s.at = at
	if n == 0 && chunk.Dropped <= 0 {
		return nil, err
	}
	return chunk, err
}
