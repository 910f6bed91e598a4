package place

import (
	"fmt"
	"strings"
	"testing"
)

// gpus reads "T4:1000 V100:300": a device with that much free each.
func gpus(text string) (all []GPU) {
	for i, word := range strings.Fields(text) {
		model, free, _ := strings.Cut(word, ":")
		g := GPU{ID: fmt.Sprint("gpu", i), Model: model}
		fmt.Sscan(free, &g.Free)
		all = append(all, g)
	}
	return all
}

func TestDeviceChoice(t *testing.T) {
	for _, c := range []struct {
		name  string
		want  Request
		free  string
		given string // ids and shares; empty: too few
	}{
		{"none asked", Request{Share: 1000}, "T4:1000", ""},
		{"a share on the fullest that has it", Request{GPUs: 1, Share: 300}, "T4:1000 T4:400 T4:299 T4:300", "gpu3:300"},
		{"the first of equals", Request{GPUs: 1, Share: 300}, "T4:400 T4:400", "gpu0:300"},
		{"a share opens a free one last", Request{GPUs: 1, Share: 500}, "T4:1000 T4:499 T4:1000", "gpu0:500"},
		{"no share left", Request{GPUs: 1, Share: 500}, "T4:499 T4:0", ""},
		{"a whole one is a free one", Request{GPUs: 1, Share: 1000}, "T4:999 T4:1000", "gpu1:1000"},
		{"several whole ones", Request{GPUs: 2, Share: 1000}, "T4:1000 T4:999 T4:1000 T4:1000", "gpu0:1000 gpu2:1000"},
		{"too few", Request{GPUs: 3, Share: 1000}, "T4:1000 T4:999 T4:1000", ""},
		{"the model counts before the fullness", Request{GPUs: 1, Share: 300, Models: []string{"V100"}}, "T4:300 V100:900", "gpu1:300"},
		{"any of the models", Request{GPUs: 2, Share: 1000, Models: []string{"V100", "A10"}}, "A10:1000 T4:1000 V100:1000", "gpu0:1000 gpu2:1000"},
		{"a model that is not there", Request{GPUs: 1, Share: 1, Models: []string{"A10"}}, "T4:1000", ""},
		{"over-committed", Request{GPUs: 1, Share: 1}, "T4:-200", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &Candidate{GPUs: gpus(c.free)}
			var got []string
			for _, g := range shares(&c.want, node) {
				got = append(got, fmt.Sprintf("%s:%d", g.GetId(), g.GetMilli()))
			}
			if strings.Join(got, " ") != c.given {
				t.Errorf("%v; want %s", got, c.given)
			}
			if _, ok := (Devices{}).Check(&c.want, node); ok != (c.given != "" || c.want.GPUs == 0) {
				t.Errorf("the filter says %v", ok)
			}
		})
	}
}
