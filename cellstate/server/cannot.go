package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/ability"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// nobodyCan says which groups of a job ask for what no node of the cell can do: they wait
// until one joins that can. Of a cell without nodes nothing can be said.
func nobodyCan(s *cellstate.Snapshot, spec *ohmv1.JobSpec) (notices []string) {
	for _, g := range spec.GetGroups() {
		type lack struct {
			of     ability.Set
			driver string
		}
		lacks, nodes, can := map[lack]int{}, 0, false
		for n := range s.Nodes() {
			if n.Facts == nil {
				continue
			}
			nodes++
			if of := cellstate.Lacks(n, g); of == 0 {
				can = true
				break
			} else {
				lacks[lack{of, n.Facts.GetDriver()}]++
			}
		}
		if can || nodes == 0 {
			continue
		}
		var why []string
		for _, l := range slices.SortedFunc(maps.Keys(lacks), func(a, b lack) int {
			return strings.Compare(a.driver+a.of.String(), b.driver+b.of.String())
		}) {
			why = append(why, fmt.Sprintf("%d of %d nodes cannot: %s (driver %s)", lacks[l], nodes, l.of, l.driver))
		}
		notices = append(notices, fmt.Sprintf("no node can run the tasks of group %s: %s", g.GetName(), strings.Join(why, "; ")))
	}
	return notices
}
