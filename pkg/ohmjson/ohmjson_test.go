package ohmjson

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestMarshal(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 80_000_000, time.FixedZone("", 3600))
	yes := true
	for name, c := range map[string]struct {
		in   proto.Message
		want string
	}{
		"scalars are always there": {&ohmv1.GetJobRequest{}, `{"namespace":"","job":"","run":0}`},
		"lowerCamel, 64-bit numbers as numbers": {
			&ohmv1.TxnClaim{Namespace: "default", Task: "b/main/0", Attempt: 2, Revision: math.MaxInt64},
			`{"namespace":"default","task":"b/main/0","attempt":2,"node":"","revision":9223372036854775807,"state":""}`},
		"empty list":                 {&ohmv1.AuditResponse{FromRevision: 1}, `{"fromRevision":1,"toRevision":0,"revisions":0,"transactions":0,"placements":0,"violations":[]}`},
		"absent optional, empty map": {&ohmv1.SetIntentRequest{Node: "n"}, `{"node":"n","labels":{},"removeLabels":[]}`},
		"optional that is set":       {&ohmv1.SetIntentRequest{Drain: &yes}, `{"node":"","drain":true,"labels":{},"removeLabels":[]}`},
		"maps in order":              {&ohmv1.SetIntentRequest{Labels: map[string]string{"b": "2", "a": "1", "c": "<&>\n\""}}, `{"node":"","labels":{"a":"1","b":"2","c":"<&>\n\""},"removeLabels":[]}`},
		"time and absent messages":   {&ohmv1.Meta{Value: "v", Time: timestamppb.New(at)}, `{"value":"v","time":"2026-03-04T04:06:07.08Z","averages":[]}`},
		"duration":                   {&ohmv1.Timing{Heartbeat: durationpb.New(1900 * time.Millisecond)}, `{"heartbeat":1.9}`},
		"whole duration":             {&ohmv1.Timing{Heartbeat: durationpb.New(2 * time.Hour)}, `{"heartbeat":7200}`},
		"negative duration":          {&ohmv1.Timing{Heartbeat: durationpb.New(-5 * time.Millisecond)}, `{"heartbeat":-0.005}`},
		"no duration at all":         {&ohmv1.Timing{Heartbeat: durationpb.New(0)}, `{"heartbeat":0}`},
		"enum":                       {&ohmv1.Constraint{Op: ohmv1.Operator_OPERATOR_NOT_IN}, `{"key":"","op":"NotIn","values":[],"always":false}`},
		"enum without a value":       {&ohmv1.Constraint{}, `{"key":"","op":"Unspecified","values":[],"always":false}`},
		"enum of a later release":    {&ohmv1.Constraint{Op: 99}, `{"key":"","op":99,"values":[],"always":false}`},
		"controls":                   {&ohmv1.Meta{Value: "\x1b[0m\x7f\u009b"}, `{"value":"\u001b[0m\u007f\u009b","averages":[]}`},
		"bytes":                      {wrapperspb.Bytes([]byte{0xff, 0}), `{"value":"/wA="}`},
		"one of":                     {&ohmv1.AgentMessage{Message: &ohmv1.AgentMessage_Heartbeat{Heartbeat: &ohmv1.Heartbeat{}}}, `{"heartbeat":{}}`},
		"float":                      {wrapperspb.Double(0.004), `{"value":0.004}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Marshal(c.in)
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
			if !json.Valid(got) {
				t.Errorf("%s is not JSON", got)
			}
		})
	}
}

// Enums of more than one word lose the whole prefix of their type.
func TestMarshalEnumOfTwoWords(t *testing.T) {
	got, err := Marshal(&ohmv1.Status{State: ohmv1.TaskState_TASK_STATE_SUCCEEDED})
	want := `"state":"Succeeded"`
	if err != nil || !strings.Contains(string(got), want) {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestMarshalList(t *testing.T) {
	for _, c := range []struct {
		in   []*ohmv1.Port
		want string
	}{
		{nil, `[]`},
		{[]*ohmv1.Port{{Name: "a", Number: 460}, {Name: "b"}}, `[{"name":"a","number":460},{"name":"b","number":0}]`},
	} {
		if got, err := MarshalList(c.in); err != nil || string(got) != c.want {
			t.Errorf("got %s, %v, want %s", got, err, c.want)
		}
	}
}

func TestMarshalRefuses(t *testing.T) {
	for name, m := range map[string]proto.Message{
		"a number that is none":   wrapperspb.Double(math.NaN()),
		"an endless number":       wrapperspb.Float(float32(math.Inf(1))),
		"a time of no year":       &ohmv1.Meta{Time: &timestamppb.Timestamp{Seconds: math.MaxInt64}},
		"a duration of two signs": &ohmv1.StopPolicy{Grace: &durationpb.Duration{Seconds: 1, Nanos: -1}},
	} {
		if got, err := Marshal(m); err == nil {
			t.Errorf("%s: got %s, want an error", name, got)
		}
	}
}
