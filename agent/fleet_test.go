package agent

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/hollow"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// cell gives every node that says hello one task, which ends after a minute.
type cell struct {
	ohmv1.UnimplementedNodesServer
	mu       sync.Mutex
	hellos   map[string]*ohmv1.Node
	arrivals map[time.Time]int
	states   map[string]task.State // by node
}

func (c *cell) Session(stream ohmv1.Nodes_SessionServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		c.mu.Lock()
		for _, s := range m.GetStatuses().GetStatuses() {
			c.states[s.GetNode()] = s.GetState()
		}
		node := m.GetHello().GetNode()
		if node != nil {
			c.hellos[node.GetName()] = node
			c.arrivals[time.Now()]++
		}
		c.mu.Unlock()
		if node == nil {
			continue
		}
		a := assignment("job", 1000, func(a *ohmv1.Assignment) {
			a.Placement.Node = node.GetName()
			a.Env = map[string]string{hollow.EnvSeconds: "60"}
		})
		err = stream.Send(&ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Complete{
			Complete: &ohmv1.Complete{Revision: 1, Assignments: []*ohmv1.Assignment{a}}}})
		if err != nil {
			return err
		}
	}
}

func (c *cell) count(s task.State) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		if state == s {
			n++
		}
	}
	return n
}

func TestFleet(t *testing.T) {
	const nodes = 300
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		c := &cell{hellos: map[string]*ohmv1.Node{}, arrivals: map[time.Time]int{}, states: map[string]task.State{}}
		g := grpc.NewServer()
		ohmv1.RegisterNodesServer(g, c)
		served := make(chan error, 1)
		go func() { served <- g.Serve(listener) }()
		conn, err := grpc.NewClient("passthrough:cell", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		f := Fleet{Conn: conn, Driver: func(*ohmv1.Node) driver.Driver { return hollow.New() }}
		for i := range nodes {
			f.Nodes = append(f.Nodes, &ohmv1.Node{Name: fmt.Sprintf("n%d", i), Capacity: &ohmv1.Resources{CpuMilli: 1000}})
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- f.Run(ctx) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		equal(t, "running", c.count(task.Running), nodes)
		equal(t, "attributes", c.hellos["n7"].GetAttributes(), map[string]string{"driver": "hollow", "hollow": "true"})
		equal(t, "facts given stay as they are", f.Nodes[7].GetAttributes(), nil)
		for at, n := range c.arrivals {
			if n > nodes/10 {
				t.Errorf("%d nodes came at the same time, %v", n, at)
			}
		}
		time.Sleep(40 * time.Second)
		synctest.Wait()
		equal(t, "succeeded", c.count(task.Succeeded), nodes)
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = listener.Close()
	})
}
