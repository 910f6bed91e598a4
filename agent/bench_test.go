package agent

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/hollow"
	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/codec"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// BenchmarkLives is what a task's whole life costs an agent of a simulated node, in CPU of
// the process: with it goes a control plane that does no more than keep the nodes busy.
func BenchmarkLives(b *testing.B) {
	const nodes, live = 100, 16
	p := &plane{left: int64(b.N), live: live, done: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	g := grpc.NewServer(grpc.ForceServerCodecV2(codec.Writing()))
	ohmv1.RegisterNodesServer(g, p)
	served := make(chan error, 1)
	go func() { served <- g.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), append(DialOptions(0), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		b.Fatal(err)
	}
	f := Fleet{Conn: conn, Log: zap.NewNop(), Driver: func(*ohmv1.Node) driver.Driver { return hollow.New() }}
	for i := range nodes {
		f.Nodes = append(f.Nodes, &ohmv1.Node{Name: fmt.Sprintf("n%d", i), Capacity: &ohmv1.Resources{CpuMilli: 64000}})
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	begin := used()
	b.ResetTimer()
	go func() { ended <- f.Run(ctx) }()
	<-p.done
	b.ReportMetric(float64((used()-begin).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(p.messages.Load())/float64(b.N), "reports/op")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	_ = conn.Close()
	g.Stop()
	if err := <-served; err != nil {
		b.Error(err)
	}
}

// used is the CPU that the process has used.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// plane keeps so many tasks on each node until so many have ended.
type plane struct {
	ohmv1.UnimplementedNodesServer
	live           int
	left           int64
	next, messages atomic.Int64
	ended          atomic.Int64
	done           chan struct{}
}

func (p *plane) Session(stream ohmv1.Nodes_SessionServer) error {
	hello, err := stream.Recv()
	if err != nil {
		return err
	}
	node := hello.GetHello().GetNode().GetName()
	revision := int64(1)
	fresh := func(n int) (all []*ohmv1.Assignment) {
		for range n {
			if i := p.next.Add(1); i <= p.left {
				a := assignment(fmt.Sprintf("t%d", i), 1000)
				a.Placement.Node = node
				a.Env = map[string]string{hollow.EnvSeconds: "0.5-1.5"}
				for k := range 9 {
					a.Env[fmt.Sprintf("OHM_SOMETHING_%d", k)] = "value"
				}
				all = append(all, a)
			}
		}
		return all
	}
	complete := &ohmv1.Complete{Revision: revision, Assignments: fresh(p.live)}
	if err := stream.Send(&ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Complete{Complete: complete}}); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		p.messages.Add(1)
		var removed []string
		for _, s := range m.GetStatuses().GetStatuses() {
			if task.Ended(s.GetState()) {
				removed = append(removed, cellstate.TaskID(&ohmv1.Placement{Slot: s.GetSlot(), Attempt: s.GetAttempt(), Txn: s.GetTxn()}))
			}
		}
		if len(removed) == 0 {
			continue
		}
		i := &ohmv1.Incremental{FromRevision: revision, Revision: revision + 1, Removed: removed, Assignments: fresh(len(removed))}
		revision++
		if err := stream.Send(&ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Incremental{Incremental: i}}); err != nil {
			return err
		}
		if p.ended.Add(int64(len(removed))) == p.left {
			close(p.done)
		}
	}
}
