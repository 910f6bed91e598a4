package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/ohmcell/ohm/pkg/codec"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// batchSize is the most statuses of one message: some 100 KiB.
const batchSize = 500

// DialOptions are what a connection for agents needs: a server that went away without a
// word is noticed, and one that comes back is found soon. between is the longest pause between
// two tries to reach it, of three seconds at most; 0: these.
func DialOptions(between time.Duration) []grpc.DialOption {
	most := 3 * time.Second
	if between > 0 {
		most = min(most, between)
	}
	return []grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.3, MaxDelay: most},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Reading())),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
	}
}

// sessions holds one session after the other until ctx ends.
func (a *Agent) sessions(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		answered, err := a.session(ctx)
		if ctx.Err() != nil {
			break
		}
		if failures++; answered {
			failures = 1
		}
		a.Log.Info("the session ended; tasks go on", zap.Error(err), zap.Int("failures", failures))
		pause(ctx, jitter(backoff(100*time.Millisecond, a.Backoff, failures), 0.2))
	}
	return nil
}

// session is one conversation with a server. answered says that it got as far as the
// desired state.
func (a *Agent) session(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stream, err := a.nodes.Session(ctx)
	if err != nil {
		cancel(nil)
		return false, err
	}
	late := time.AfterFunc(a.Answer, func() { cancel(errors.New("the server does not say what is desired")) })
	defer late.Stop()
	hello := &ohmv1.Hello{Node: a.facts.Load(), Session: newSession(), LastRevision: a.acted.Load()}
	told := make(chan struct{})
	timing := make(chan time.Duration, 1) // the newest
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		a.send(ctx, stream, hello, told, timing)
	}()
	defer func() {
		cancel(nil)
		<-sent
	}()
	var revision int64
	for {
		m, err := stream.Recv()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return answered, err
		}
		switch {
		case m.GetTiming() != nil:
			if every := m.GetTiming().GetHeartbeat().AsDuration(); every > 0 {
				select {
				case <-timing:
				default:
				}
				timing <- every
			}
			continue
		case m.GetComplete() != nil:
			revision = m.GetComplete().GetRevision()
			late.Stop()
		case m.GetIncremental() != nil:
			i := m.GetIncremental()
			if !answered || i.GetFromRevision() != revision {
				return answered, fmt.Errorf("a message was lost: have revision %d, got what follows %d", revision, i.GetFromRevision())
			}
			revision = i.GetRevision()
		}
		select {
		case a.inbox <- m:
		case <-ctx.Done():
			return answered, context.Cause(ctx)
		}
		if m.GetComplete() != nil && !answered {
			answered = true
			close(told)
		}
	}
}

// send says hello, then heartbeats and, once told what is desired, statuses. It ends
// with the stream; Recv says why.
func (a *Agent) send(ctx context.Context, stream ohmv1.Nodes_SessionClient, hello *ohmv1.Hello,
	told <-chan struct{}, timing <-chan time.Duration) {
	if err := stream.Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Hello{Hello: hello}}); err != nil {
		return
	}
	every := a.Heartbeat
	beat := time.NewTimer(jitter(every, 0))
	defer beat.Stop()
	said := hello.GetNode()
	var bell, changed <-chan struct{} // silent until told
	var last, due time.Time           // of the statuses; nothing is due if zero
	batch := time.NewTimer(0)
	defer batch.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case every = <-timing:
			beat.Reset(jitter(every, 0))
		case <-beat.C:
			if err := stream.Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Heartbeat{Heartbeat: &ohmv1.Heartbeat{}}}); err != nil {
				return
			}
			beat.Reset(jitter(every, 0.8))
		case report := <-a.usageOut:
			if err := stream.Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Usage{Usage: report}}); err != nil {
				return
			}
		case <-told:
			told, bell, changed = nil, a.outbox.bell, a.changed
			ring(a.outbox.bell)
			ring(a.changed)
		case <-changed:
			if facts := a.facts.Load(); facts != said {
				if err := stream.Send(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Facts{Facts: facts}}); err != nil {
					return
				}
				said = facts
			}
		case <-bell:
			if next := a.outbox.due(time.Now(), last, a.Batch, a.Pace); due.IsZero() || next.Before(due) {
				due = next
				batch.Reset(time.Until(due))
			}
		case <-batch.C:
			if due.IsZero() {
				continue
			}
			due = time.Time{}
			for {
				statuses := a.outbox.take(batchSize)
				if len(statuses) == 0 {
					break
				}
				m := &ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Statuses{Statuses: &ohmv1.StatusBatch{Statuses: statuses}}}
				if err := stream.Send(m); err != nil {
					return
				}
				last = time.Now()
			}
		}
	}
}
