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

// TestDevicesOfInstances: instances choose different ones of equal devices, and the same where
// one is better.
func TestDevicesOfInstances(t *testing.T) {
	free := strings.Repeat("T4:1000 ", 8)
	for _, c := range []struct {
		name   string
		want   Request
		free   string
		chosen []string // by turn
	}{
		{"one", Request{GPUs: 1, Share: 1000}, free, []string{"0", "1", "2"}},
		{"two, side by side", Request{GPUs: 2, Share: 1000}, free, []string{"0 1", "0 1", "2 3", "2 3", "4 5"}},
		{"three, around the end", Request{GPUs: 3, Share: 1000}, free, []string{"0 1 2", "0 1 2", "0 1 2", "3 4 5", "3 4 5", "3 4 5", "0 6 7"}},
		{"the fullest", Request{GPUs: 1, Share: 300}, "T4:1000 T4:400 T4:1000", []string{"1", "1", "1"}},
		{"equal ones after it", Request{GPUs: 1, Share: 300}, "T4:400 T4:1000 T4:400", []string{"0", "2", "2"}},
		{"more turns than devices", Request{GPUs: 1, Share: 1000}, "T4:1000 T4:1000", []string{"0", "1", "0", "1"}},
		{"of two models", Request{GPUs: 1, Share: 1000}, "T4:1000 V100:1000", []string{"0", "0"}},
		{"none", Request{Share: 1000}, free, []string{"", ""}},
		{"on a node without any", Request{GPUs: 1, Share: 1000}, "", []string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &Candidate{GPUs: gpus(c.free), mixed: strings.Contains(c.free, "V100")}
			for turn, want := range c.chosen {
				c.want.turn = turn
				var got []string
				for _, i := range devices(&c.want, node, nil) {
					got = append(got, fmt.Sprint(i))
				}
				if strings.Join(got, " ") != want {
					t.Errorf("turn %d: %v; want %s", turn, got, want)
				}
			}
		})
	}
}
