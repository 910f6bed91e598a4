package chaos

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Report is what a run has seen.
type Report struct {
	Seed     uint64
	Took     time.Duration
	Tasks    int
	Attempts int            // in the store
	On       map[string]int // of them, on each node

	AgentKills, DaemonKills int

	Unrest   []string // what was not as wanted when nobody was killed any more
	Doubles  []string
	Needless []string
	Leaks    []string
}

// shown is how many faults of a kind are printed.
const shown = 20

// Print prints the report.
func (p *Report) Print(out io.Writer) {
	for _, kind := range []struct {
		name  string
		found []string
	}{{"not at rest", p.Unrest}, {"double", p.Doubles}, {"needless end", p.Needless}, {"leak", p.Leaks}} {
		for _, f := range kind.found[:min(shown, len(kind.found))] {
			fmt.Fprintf(out, "%s: %s\n", kind.name, f)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(p.On)) {
		fmt.Fprintf(out, "%s: %d attempts\n", node, p.On[node])
	}
	fmt.Fprintf(out, "seed %d, %.0f s: kills %d (agents %d, containerd %d), tasks %d, attempts %d, doubles %d, leaks %d, needless ends %d\n",
		p.Seed, p.Took.Seconds(), p.AgentKills+p.DaemonKills, p.AgentKills, p.DaemonKills, p.Tasks, p.Attempts,
		len(p.Doubles), len(p.Leaks), len(p.Needless))
}

// Err says why a run is not a proof.
func (p *Report) Err() error {
	var errs []error
	for what, found := range map[string][]string{"not at rest": p.Unrest, "doubles": p.Doubles, "leaks": p.Leaks, "needless ends": p.Needless} {
		if len(found) > 0 {
			errs = append(errs, fmt.Errorf("%s: %d", what, len(found)))
		}
	}
	for node, n := range p.On {
		if n == 0 {
			errs = append(errs, fmt.Errorf("nothing ran on %s", node))
		}
	}
	if p.AgentKills == 0 || p.DaemonKills == 0 || p.Attempts == 0 {
		errs = append(errs, errors.New("nothing was killed, or nothing ran"))
	}
	return errors.Join(errs...)
}
