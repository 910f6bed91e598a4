package agent

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// Field case 112: a task whose port somebody else has is not started, and its end says why
// and which port it was.
func TestCase112(t *testing.T) {
	inWorld(t, func(w *world) {
		foreign := map[int32]bool{8080: true}
		w.config.PortBusy = func(port int32) bool { return foreign[port] }
		w.start()
		ports := func(a *ohmv1.Assignment) {
			a.Placement.Ports = []*ohmv1.Port{{Name: "admin", Number: 9090}, {Name: "http", Number: 8080}}
		}
		a, b := assignment("a", 100, ports), assignment("b", 100)
		w.complete(a, b)
		equal(t, "calls", w.m.did(), []string{"start " + b.Id})
		last := w.last(a.Id)
		equal(t, "end", task.Name(last.GetState())+" "+last.GetCause(), "Failed PortBusy")
		equal(t, "ports", last.GetBusyPorts(), []int32{8080})
		equal(t, "message", last.GetMessage(), "port 8080 is in use by a process outside of the cell")
		w.halt()
		delete(foreign, 8080)
		w.start() // the attempt is over, whatever another agent finds
		w.complete(a, b)
		equal(t, "calls of the next agent", w.m.did(), nil)
		equal(t, "end", w.last(a.Id).GetCause(), "PortBusy")
		w.incremental([]string{a.Id})
		w.pass(time.Second)
		equal(t, "alive", w.agent.Running(), 1)
	})
}

// TestOwnNetworkPorts: at the ports of a task with a network of its own the driver listens, since
// an earlier try to start it maybe: nobody else looks whether they are free.
func TestOwnNetworkPorts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.PortBusy = func(int32) bool { return true }
		w.start()
		own := assignment("a", 100, func(a *ohmv1.Assignment) {
			a.Placement.Ports, a.Network = []*ohmv1.Port{{Name: "http", Number: 8080}}, ownNetwork
		})
		w.m.locked(func() { w.m.noStart[own.Id] = &driver.PortBusyError{Ports: []int32{8080}} })
		w.complete(own)
		equal(t, "calls", w.m.did(), []string{"start " + own.Id})
		equal(t, "ports", w.last(own.Id).GetBusyPorts(), []int32{8080})
	})
}

// Field case 10: an agent does not start with ports that make no sense.
func TestCase10Ports(t *testing.T) {
	for _, c := range []struct {
		dynamic  string
		reserved []string
		wrong    string
	}{
		{"", nil, ""},
		{"20000-20000", []string{"22", "65535"}, ""},
		{"", []string{"22", "80", "22"}, "port 22 is reserved twice"},
		{"", []string{"65536"}, "reserved port 65536 is not within 1-65535"},
		{"", []string{"0"}, "reserved port 0 is not within 1-65535"},
		{"", []string{"ssh"}, `reserved port "ssh" is no number`},
		{"30000-20000", nil, "30000-20000 is no range of ports within 1-65535"},
		{"0-100", nil, "0-100 is no range of ports within 1-65535"},
		{"60000-70000", nil, "60000-70000 is no range of ports within 1-65535"},
		{"20000", nil, `dynamic ports "20000" are not written as first-last, such as 20000-32000`},
	} {
		_, err := Facts(FactsConfig{DataDir: t.TempDir(), Ports: c.dynamic, ReservedPorts: c.reserved})
		got := ""
		if err != nil {
			got = err.Error()
		}
		equal(t, fmt.Sprint(c.dynamic, c.reserved), got, c.wrong)
	}
}

func TestUsualPorts(t *testing.T) {
	for kernel, want := range map[[2]int32][2]int32{
		{0, 0}:         {20000, 32000}, // not known
		{32768, 60999}: {20000, 32000},
		{32000, 60999}: {20000, 31999},
		{1024, 4999}:   {20000, 32000},
		{10000, 65000}: {1024, 9999},
		{10000, 50000}: {50001, 62000},
		{15000, 25000}: {25001, 37000},
		{1024, 65535}:  {20000, 32000}, // there is no better one
	} {
		if got := usualPorts(kernel[0], kernel[1]); !proto.Equal(got, &ohmv1.PortRange{First: want[0], Last: want[1]}) {
			t.Errorf("the kernel takes %v: %v", kernel, got)
		}
	}
}
