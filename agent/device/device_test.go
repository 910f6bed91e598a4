package device

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestParse(t *testing.T) {
	gpus, err := Parse([]string{"0=T4", "gpu-1=A100=80G"})
	if err != nil || len(gpus) != 2 || gpus[1].GetId() != "gpu-1" || gpus[1].GetModel() != "A100=80G" {
		t.Errorf("%v, %v", gpus, err)
	}
	for _, bad := range [][]string{{"0"}, {"=T4"}, {"0="}, {"0=T4", "0=T4"}} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	p, err := ParsePolicy(Policy{13: Healthy, 48: Lost}, []string{"48=bad", "94=ignore"})
	if err != nil || p[13] != Healthy || p[48] != Bad || p[94] != Healthy || len(p) != 3 {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"48", "48=", "48=good", "x=bad", "-1=bad", "=bad"} {
		if _, err := ParsePolicy(nil, []string{bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMerge(t *testing.T) {
	p := Policy{13: Healthy, 79: Lost}
	d := func(id string, faults ...Fault) Device { return Device{ID: id, Model: "T4", Faults: faults} }
	is := func(id string, h ohmv1.DeviceHealth, why string) *ohmv1.Device {
		return &ohmv1.Device{Id: id, Model: "T4", Health: h, Why: why}
	}
	a, b := is("a", Healthy, ""), is("b", Healthy, "")
	for _, c := range []struct {
		name  string
		known []*ohmv1.Device
		seen  []Device
		err   error
		want  []*ohmv1.Device
	}{
		{"nothing", nil, nil, nil, nil},
		{"the first time", nil, []Device{d("b"), d("a")}, nil, []*ohmv1.Device{b, a}},
		{"known ones keep their place", []*ohmv1.Device{a, b}, []Device{d("c"), d("b"), d("a")}, nil, []*ohmv1.Device{a, b, is("c", Healthy, "")}},
		{"one has gone", []*ohmv1.Device{a, b}, []Device{d("b")}, nil, []*ohmv1.Device{is("a", NotReady, "it is not found on the machine"), b}},
		{"it cannot be told", []*ohmv1.Device{a, is("b", Bad, "code 63: x")}, nil, errors.New("no driver"),
			[]*ohmv1.Device{is("a", NotReady, "no driver"), is("b", NotReady, "no driver")}},
		{"one is back", []*ohmv1.Device{is("a", NotReady, "no driver")}, []Device{d("a")}, nil, []*ohmv1.Device{a}},
		{"a program's fault", nil, []Device{d("a", Fault{13, "x"})}, nil, []*ohmv1.Device{a}},
		{"a fault that nobody named", nil, []Device{d("a", Fault{63, "x"})}, nil, []*ohmv1.Device{is("a", Bad, "code 63: x")}},
		{"the worst of several", nil, []Device{d("a", Fault{79, "off the bus"}, Fault{13, "x"}, Fault{63, ""})}, nil,
			[]*ohmv1.Device{is("a", Lost, "code 63; code 79: off the bus")}},
		{"a fault has passed", []*ohmv1.Device{is("a", Bad, "code 63: x")}, []Device{d("a")}, nil, []*ohmv1.Device{a}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Merge(c.known, c.seen, c.err, p)
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
			for i := range got {
				if !proto.Equal(got[i], c.want[i]) {
					t.Errorf("%v, want %v", got[i], c.want[i])
				}
			}
		})
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "devices.json")
	for text, want := range map[string]string{ // empty: the devices are told
		`[{"id":"g0","model":"T4","faults":[{"code":63,"what":"x"}],"edits":{"nodes":["/dev/g0"]}}]`: "",
		`[]`:                        "",
		`[{"id":"g0"},{"id":"g0"}]`: "two of id",
		`[{"model":"T4"}]`:          "without",
		`[{"id":`:                   "unexpected end",
		strings.Repeat(" ", most+1): "at most",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		devices, err := File(path).Devices(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v, want %q", text, devices, err, want)
		}
		if strings.Contains(text, "faults") && (len(devices) != 1 || devices[0].Faults[0].Code != 63 || devices[0].Edits.Nodes[0] != "/dev/g0") {
			t.Errorf("%+v", devices)
		}
	}
	if _, err := File(path + "-not-there").Devices(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
