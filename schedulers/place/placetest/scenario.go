// Package placetest runs a policy on scenarios written as text, and prints what it
// proposes as text: the script tests of the policies.
//
// A scenario is a txtar archive of two files, cell and want. Each line of cell is a verb,
// a name and settings:
//
//	node n1 cpu=4 memory=8Gi gpus=T4,T4 zone=a      a live node; other keys are attributes
//	node n3 cpu=4 driver=native can=image,user       what it can do
//	node n2 cpu=4 dead | ineligible | drain          without a session; with an intent
//	hold n1 cpu=1 precedence=200                     room held on a node
//	job web kind=service precedence=200 min=2        the job of the groups that follow
//	group main count=3 cpu=1 memory=1Gi gpus=1 share=500m models=T4|V100 in=zone:a,b exists=ssd image=a
//	group main ports=8080,0                          0: a dynamic one, from a node's ports=30000-30009
//	live web/main/0 n1 gpus=0:500 ports=8080 ran=60s a live placement of that group's size
//	evict 10 after=10s pertask=5                     tasks that may be evicted; what has run so long, not so often
//	home 0/2      limit 8 nodes=4      seed 7        of one transaction: claims, nodes; 0: none
package placetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ohmcell/ohm/schedulers"
)

// Run runs every scenario of testdata on a fresh policy, twice on the same policy, and
// once more on one that has seen all the others: the proposal must be the wanted one
// each time. With OHM_UPDATE set, it rewrites what is wanted.
func Run(t *testing.T, fresh func() schedulers.Scheduler) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in testdata (%v)", err)
	}
	worn := fresh()
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) != 2 || archive.Files[0].Name != "cell" || archive.Files[1].Name != "want" {
				t.Fatal("a scenario is the files cell and want")
			}
			in := Input(t, string(archive.Files[0].Data))
			got := Propose(t, fresh(), in)
			if os.Getenv("OHM_UPDATE") != "" {
				archive.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			for range 2 {
				if again := Propose(t, worn, in); again != got {
					t.Errorf("a policy that has decided before decides otherwise:\n%s", cmp.Diff(got, again))
				}
			}
		})
	}
}
