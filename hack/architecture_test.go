package hack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// layers are the trees of this module from the bottom up; imports go downwards only, or
// sideways within a layer. The longest tree that matches a package counts.
func layers() [][]string {
	return [][]string{
		{"proto"},
		{"pkg"},
		{"cellstate"},
		{"cellstate/mirror", "cellstate/memstore", "cellstate/etcdstore", "cellstate/audit", "schedulers", "agent"},
		{"cellstate/server", "cellstate/keeper", "schedulers/batch", "schedulers/service", "schedulers/ml", "schedulers/system",
			"agent/driver/native", "agent/driver/hollow", "agent/driver/containerd"},
		{"cellstate/storetest", "cellstate/celltest", "schedulers/schedtest", "schedulers/place/placetest", "agent/driver/drivertest"},
		{"cellstate/robustness", "agent/chaos"}, // a whole cell each: its command stands with it
		{"examples", "cmd", "e2e", "hack"},
	}
}

// layerOf is the number of a package's layer, from 0 at the bottom; -1: it has none.
func layerOf(path string) int {
	layer, longest := -1, 0
	for n, trees := range layers() {
		for _, tree := range trees {
			if in(path, tree) && len(tree) > longest {
				layer, longest = n, len(tree)
			}
		}
	}
	return layer
}

// never is a rule on ways through the imports: none of from may reach any of to, however
// many packages stand between.
type never struct {
	from, to []string
	tests    bool // tests may not either
	why      string
}

func nevers() []never {
	stores := []string{"cellstate/mirror", "cellstate/memstore", "cellstate/etcdstore"}
	return []never{
		{from: []string{"schedulers"}, to: []string{"cellstate/etcdstore"}, tests: true,
			why: "a policy that can see the database will come to depend on it"},
		{from: []string{"agent"}, to: append([]string{"cellstate/server", "cellstate/keeper"}, stores...), tests: true,
			why: "the agent shares the nouns and Validate, and has no right on the store: it speaks to a server"},
		{from: []string{"proto", "pkg", "cellstate", "schedulers", "agent", "examples"}, to: []string{"cmd"}, tests: true,
			why: "cmd is wiring; what others need belongs into a package of its own"},
		{from: []string{"pkg"}, to: []string{"cellstate", "schedulers", "agent", "cmd"}, tests: true,
			why: "pkg holds leaves, which nothing below may pull back up"},
		{from: []string{"cmd"}, to: slices.Concat(layers()[5], layers()[6]),
			why: "test kits are no part of the product"},
		{from: []string{"proto", "pkg", "cellstate", "schedulers", "agent", "cmd"}, to: []string{"hack", "examples", "e2e"}, tests: true,
			why: "nothing builds on examples, or on the tests and tools of the whole"},
	}
}

// library is a rule on direct imports of other people's code.
type library struct {
	path   string   // and all below
	banned []string // packages exactly; empty: everybody but may
	may    []string // trees
	why    string
}

func libraries() []library {
	return []library{
		{path: "github.com/spf13/viper", may: []string{"pkg/config"},
			why: "settings come together in pkg/config; everybody else is handed values"},
		{path: "go.etcd.io", may: []string{"cellstate/etcdstore", "cmd/ohm/process", "cmd/ohm/bench", "cellstate/robustness"}, // the bench compares with raw etcd, the robustness run breaks it
			why: "only the store on etcd knows etcd"},
		{path: "github.com/containerd", may: []string{"agent/driver/containerd", "agent/driver/native/image", "agent/driver/registry"}, // of which the latter speaks to registries by its client
			why: "a great many modules hang on it: whoever does not run containers is to go without"},
		{path: "google.golang.org/grpc", banned: []string{"cellstate"},
			why: "the cell's nouns and rules know no wire"},
		{path: "google.golang.org/grpc", banned: []string{"schedulers", "schedulers/reconcile", "schedulers/place", "schedulers/batch", "schedulers/service", "schedulers/ml", "schedulers/system"},
			why: "schedulers meet in the cell state, not on a wire"},
	}
}

// check holds the packages against all rules and says what is broken.
func check(all []pkg) []string {
	g := graphOf(all)
	return slices.Concat(checkLayers(all), checkNevers(all, g), checkSiblings(all, g), checkLibraries(all))
}

func checkLayers(all []pkg) (faults []string) {
	for _, p := range all {
		if layerOf(p.path) < 0 {
			faults = append(faults, fmt.Sprintf("%s is in no layer: give it one in hack/architecture_test.go", p.path))
			continue
		}
		for _, to := range p.imports {
			if layerOf(to) > layerOf(p.path) {
				faults = append(faults, fault([]string{p.path, to}, false, "imports go downwards only, and that one goes up"))
			}
		}
	}
	return faults
}

func checkNevers(all []pkg, g graph) (faults []string) {
	for _, rule := range nevers() {
		forbidden := func(to string) bool { return in(to, rule.to...) }
		for _, p := range all {
			if !in(p.path, rule.from...) || in(p.path, rule.to...) {
				continue
			}
			if way := g.way(p.path, false, forbidden); way != nil {
				faults = append(faults, fault(way, false, rule.why))
			}
			if way := g.way(p.path, true, forbidden); rule.tests && way != nil {
				faults = append(faults, fault(way, true, rule.why))
			}
		}
	}
	return faults
}

// checkSiblings keeps policies from each other, and drivers. A policy is whatever stands
// below schedulers and is not shared by all, so a new one is held to it at once.
func checkSiblings(all []pkg, g graph) (faults []string) {
	families := []struct {
		of     string
		shared []string
		why    string
	}{
		{"schedulers", []string{"schedulers/place", "schedulers/reconcile", "schedulers/schedtest"}, "policies meet only in the cell"},
		{"agent/driver", []string{"agent/driver/drivertest", "agent/driver/capability", "agent/driver/cgroup", "agent/driver/folder", "agent/driver/logdir", "agent/driver/proc", "agent/driver/publish", "agent/driver/registry", "agent/driver/segment", "agent/driver/thread"}, "a driver stands alone"},
	}
	for _, f := range families {
		member := func(path string) bool {
			return strings.HasPrefix(path, f.of+"/") && !in(path, f.shared...)
		}
		for _, p := range all {
			if !member(p.path) {
				continue
			}
			for _, tests := range []bool{false, true} {
				other := func(to string) bool { return member(to) && !in(to, p.path) && !in(p.path, to) }
				if way := g.way(p.path, tests, other); way != nil {
					faults = append(faults, fault(way, tests, f.why))
				}
			}
		}
	}
	return faults
}

func checkLibraries(all []pkg) (faults []string) {
	for _, rule := range libraries() {
		for _, p := range all {
			if in(p.path, rule.may...) || in(p.path, "hack") || len(rule.banned) > 0 && !slices.Contains(rule.banned, p.path) {
				continue
			}
			for _, to := range p.imports {
				if in(to, rule.path) {
					faults = append(faults, fault([]string{p.path, to}, false, rule.why))
				}
			}
		}
	}
	return faults
}

func TestArchitecture(t *testing.T) {
	for _, f := range check(load(t)) {
		t.Error(f)
	}
}

// TestArchitectureCanFail plants one violation of each rule in a sound module.
func TestArchitectureCanFail(t *testing.T) {
	sound := []pkg{
		{path: "proto/ohm/v1", imports: []string{"google.golang.org/grpc"}},
		{path: "pkg/task", imports: []string{"proto/ohm/v1"}},
		{path: "pkg/config", imports: []string{"github.com/spf13/viper"}},
		{path: "cellstate", imports: []string{"pkg/task"}, tests: []string{"cellstate/memstore", "cellstate/celltest"}},
		{path: "cellstate/mirror", imports: []string{"cellstate"}},
		{path: "cellstate/memstore", imports: []string{"cellstate"}},
		{path: "cellstate/celltest", imports: []string{"cellstate"}},
		{path: "cellstate/etcdstore", imports: []string{"cellstate", "go.etcd.io/etcd/client/v3"}},
		{path: "cellstate/server", imports: []string{"cellstate/mirror", "schedulers/reconcile"}},
		{path: "schedulers", imports: []string{"cellstate", "schedulers/reconcile"}},
		{path: "schedulers/reconcile", imports: []string{"cellstate"}},
		{path: "schedulers/place", imports: []string{"schedulers"}, tests: []string{"schedulers/batch", "schedulers/ml"}},
		{path: "schedulers/batch", imports: []string{"schedulers/place"}},
		{path: "schedulers/ml", imports: []string{"schedulers/place"}},
		{path: "agent", imports: []string{"agent/driver", "cellstate"}, tests: []string{"agent/driver/hollow"}},
		{path: "agent/driver", imports: []string{"pkg/task"}},
		{path: "agent/driver/native", imports: []string{"agent/driver"}},
		{path: "agent/driver/hollow", imports: []string{"agent/driver"}},
		{path: "examples/own", imports: []string{"schedulers", "cellstate/etcdstore"}},
		{path: "cmd/ohm", imports: []string{"schedulers/batch", "schedulers/ml", "agent", "cellstate/server"}},
	}
	if faults := check(sound); len(faults) > 0 {
		t.Fatalf("the sound module is refused:\n%s", strings.Join(faults, "\n"))
	}
	for name, c := range map[string]struct {
		from, to string
		tests    bool
		want     string
	}{
		"upwards":                          {from: "cellstate", to: "cellstate/mirror", want: "cellstate -> cellstate/mirror\n\tmust not be: imports go downwards only"},
		"scheduler up to a policy":         {from: "schedulers", to: "schedulers/batch", want: "imports go downwards only"},
		"proto up to pkg":                  {from: "proto/ohm/v1", to: "pkg/task", want: "imports go downwards only"},
		"policy to policy":                 {from: "schedulers/batch", to: "schedulers/ml", want: "schedulers/batch -> schedulers/ml\n\tmust not be: policies meet only in the cell"},
		"a policy's test to policy":        {from: "schedulers/ml", to: "schedulers/batch", tests: true, want: "schedulers/ml (its tests) -> schedulers/batch\n\tmust not be: policies meet"},
		"scheduler to etcd":                {from: "schedulers", to: "cellstate/etcdstore", want: "schedulers -> cellstate/etcdstore\n\tmust not be: a policy that can see the database"},
		"policy to etcd by others":         {from: "schedulers/place", to: "cellstate/etcdstore", want: "schedulers/batch -> schedulers/place -> cellstate/etcdstore"},
		"scheduler's test to etcd":         {from: "schedulers", to: "cellstate/etcdstore", tests: true, want: "schedulers (its tests) -> cellstate/etcdstore"},
		"agent to the mirror":              {from: "agent", to: "cellstate/mirror", want: "the agent shares the nouns"},
		"agent to memstore":                {from: "agent", to: "cellstate/memstore", want: "the agent shares the nouns"},
		"agent to etcd":                    {from: "agent", to: "cellstate/etcdstore", want: "the agent shares the nouns"},
		"driver to a server":               {from: "agent/driver/native", to: "cellstate/server", want: "agent/driver/native -> cellstate/server\n\tmust not be: the agent shares"},
		"agent's test to a server":         {from: "agent", to: "cellstate/server", tests: true, want: "agent (its tests) -> cellstate/server"},
		"driver to driver":                 {from: "agent/driver/native", to: "agent/driver/hollow", want: "a driver stands alone"},
		"to cmd":                           {from: "cellstate/server", to: "cmd/ohm", want: "cmd is wiring"},
		"a test to cmd":                    {from: "schedulers", to: "cmd/ohm", tests: true, want: "cmd is wiring"},
		"an example to cmd":                {from: "examples/own", to: "cmd/ohm", want: "cmd is wiring"},
		"pkg to the cell":                  {from: "pkg/task", to: "cellstate", want: "pkg holds leaves"},
		"pkg's test to the agent":          {from: "pkg/task", to: "agent", tests: true, want: "pkg holds leaves"},
		"test kit in the product":          {from: "cmd/ohm", to: "cellstate/celltest", want: "test kits are no part"},
		"cmd on an example":                {from: "cmd/ohm", to: "examples/own", want: "nothing builds on examples"},
		"viper":                            {from: "cmd/ohm", to: "github.com/spf13/viper/remote", want: "settings come together in pkg/config"},
		"etcd beside the store":            {from: "cellstate/server", to: "go.etcd.io/etcd/client/v3", want: "only the store on etcd knows etcd"},
		"etcd in the nouns":                {from: "cellstate", to: "go.etcd.io/etcd/client/v3", want: "only the store on etcd knows etcd"},
		"gRPC in the nouns":                {from: "cellstate", to: "google.golang.org/grpc/codes", want: "know no wire"},
		"gRPC in a policy":                 {from: "schedulers/ml", to: "google.golang.org/grpc", want: "not on a wire"},
		"a package that no layer has":      {from: "stuff", to: "cellstate", want: "stuff is in no layer"},
		"a new policy is a policy at once": {from: "schedulers/mine", to: "schedulers/batch", want: "policies meet only in the cell"},
	} {
		t.Run(name, func(t *testing.T) {
			all := slices.Clone(sound)
			at := slices.IndexFunc(all, func(p pkg) bool { return p.path == c.from })
			if at < 0 {
				at, all = len(all), append(all, pkg{path: c.from})
			}
			if c.tests {
				all[at].tests = append(slices.Clip(all[at].tests), c.to)
			} else {
				all[at].imports = append(slices.Clip(all[at].imports), c.to)
			}
			if faults := strings.Join(check(all), "\n"); !strings.Contains(faults, c.want) {
				t.Errorf("got %q, which does not say %q", faults, c.want)
			}
		})
	}
}
