package codec

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// messages are some with code of their own, small ones and one beyond what gRPC pools, and
// one without.
func messages() map[string]proto.Message {
	assignments := func(n int) (all []*ohmv1.Assignment) {
		for i := range n {
			all = append(all, &ohmv1.Assignment{
				Id: fmt.Sprint(i), Command: []string{"a", ""}, Env: map[string]string{"A": "1", "": "", "B": strings.Repeat("x", i)},
				Placement: &ohmv1.Placement{Node: "n", Slot: &ohmv1.Slot{Job: "j"}, Gpus: []*ohmv1.DeviceShare{{Id: "g", Milli: 500}}},
				Stop:      &ohmv1.StopPolicy{Signal: "SIGINT", Grace: durationpb.New(1e9)},
			})
		}
		return all
	}
	incremental := func(n int) proto.Message {
		return &ohmv1.ServerMessage{Message: &ohmv1.ServerMessage_Incremental{Incremental: &ohmv1.Incremental{
			FromRevision: 1, Revision: 2, Assignments: assignments(n), Removed: []string{"gone"},
		}}}
	}
	return map[string]proto.Message{
		"empty": &ohmv1.ServerMessage{}, "small": incremental(1), "large": incremental(500),
		"statuses": &ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Statuses{Statuses: &ohmv1.StatusBatch{Statuses: []*ohmv1.Status{{Message: "é", State: 3}}}}},
		"of jobs":  &ohmv1.SubmitRequest{RequestId: "r", Jobs: []*ohmv1.JobSpec{{Name: "j"}}},
	}
}

// TestSameOnTheWire: whoever uses gRPC's own codec is understood, and understands.
func TestSameOnTheWire(t *testing.T) {
	theirs := encoding.GetCodecV2(grpcproto.Name)
	for name, m := range messages() {
		for way, pair := range map[string][2]encoding.CodecV2{
			"to theirs": {Writing(), theirs}, "from theirs": {theirs, Reading()}, "both": {Writing(), Reading()}, "turned": {Reading(), Writing()},
		} {
			data, err := pair[0].Marshal(m)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, way, err)
			}
			got := m.ProtoReflect().New().Interface()
			if err := pair[1].Unmarshal(data, got); err != nil || !proto.Equal(got, m) {
				t.Errorf("%s, %s: %v, got %v", name, way, err, got)
			}
			data.Free()
		}
	}
	if Writing().Name() != grpcproto.Name || Reading().Name() != grpcproto.Name {
		t.Error("the codecs have another name than gRPC's")
	}
}

// TestTrust: what is read with Writing's codec is UTF-8.
func TestTrust(t *testing.T) {
	data, err := Writing().Marshal(&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Statuses{Statuses: &ohmv1.StatusBatch{
		Statuses: []*ohmv1.Status{{Message: "\xff"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Writing().Unmarshal(data, &ohmv1.AgentMessage{}); err == nil {
		t.Error("a string that is not UTF-8 was read")
	}
}

// TestKept: what was read stays as it is when the bytes are used again.
func TestKept(t *testing.T) {
	m := messages()["large"]
	for range 3 {
		data, err := Writing().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got := &ohmv1.ServerMessage{}
		if err := Reading().Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		for _, b := range data {
			clear(b.ReadOnlyData())
		}
		data.Free()
		if !proto.Equal(got, m) {
			t.Fatal("what was read has changed")
		}
	}
}
