package robustness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ohmcell/ohm/cellstate/robustness/history"
)

// judged is how long porcupine may look at one object.
const judged = 30 * time.Second

// shown is how many violations are printed: one fault of the cell's can have thousands.
const shown = 20

// Report is what a run has seen.
type Report struct {
	Seed   uint64
	Limits Limits
	Took   time.Duration
	Faults func() []Count

	Commits      int   // requests that do something to tasks
	Claims       int   // that were committed, as their senders were told
	Conflicts    int   // claims that lost
	Retries      int   // writes that the store refused, and that were judged again
	Unknown      int   // requests whose fate their sender never learnt
	Lost         int64 // replies that were kept from their sender
	Failed       int64 // transactions that etcd did not answer
	Resolved     int64 // fates of lost requests that were asked for
	Revisions    int64 // audited
	Transactions int64
	Placements   int64
	Tally        tally
	Operations   int // put in order by porcupine
	Objects      int // nodes and slots
	Violations   []history.Violation
}

// Count is how often a fault came.
type Count struct {
	Fault string
	Times int
}

// judge reads the histories and has all that was seen judged.
func (r *run) judge(report *Report) error {
	files, err := filepath.Glob(filepath.Join(r.Dir, "*.history"))
	if err != nil {
		return err
	}
	var ops []*history.Op
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		some, err := history.Parse(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		ops = append(ops, some...)
	}
	for _, op := range ops {
		report.Conflicts += op.Conflicts
		if len(op.Writes) == 0 {
			continue
		}
		report.Commits++
		if op.Fate == history.Unknown {
			report.Unknown++
		}
		for i, at := range op.Applied {
			if op.Fate == history.Done && at == 0 {
				report.Retries++
			}
			for _, d := range op.Writes[i] {
				if at > 0 && d.Verb == history.Claim {
					report.Claims++
				}
			}
		}
	}
	v := history.Judge(ops, r.follower.truth, judged)
	report.Operations, report.Objects = v.Operations, v.Objects
	a := r.follower.audited
	report.Tally = r.follower.tally
	report.Revisions, report.Transactions, report.Placements = a.Revisions, a.Transactions, a.Placements
	report.Violations = append(append(r.found(), r.follower.violations...), v.Violations...)
	n := r.ended
	report.Lost, report.Failed, report.Resolved = n.Lost, n.Failed, n.Resolved
	return nil
}

// Print prints the report.
func (p *Report) Print(out io.Writer) {
	fmt.Fprintf(out, "\nseed %d, %.0f s, etcd with %d operations and %d KiB a request\n\n", p.Seed, p.Took.Seconds(), p.Limits.TxnOps, p.Limits.RequestBytes>>10)
	for _, c := range p.Faults() {
		fmt.Fprintf(out, "%6d  %s\n", c.Times, c.Fault)
	}
	fmt.Fprintln(out)
	for _, f := range []struct {
		n    int64
		what string
	}{
		{int64(p.Commits), "requests that commit or release"}, {p.Transactions, "transactions committed"}, {p.Placements, "placements"},
		{int64(p.Conflicts), "claims lost to a conflict"}, {int64(p.Retries), "writes refused and judged again (retries)"},
		{p.Lost, "replies lost"}, {p.Failed, "transactions that etcd did not answer"}, {p.Resolved, "fates of lost requests asked for"},
		{int64(p.Unknown), "requests whose fate stayed unknown"}, {p.Revisions, "revisions audited"},
		{int64(p.Tally.Moved), "shares of quotas moved"}, {int64(p.Tally.Bound), "times that a quota was used up"},
		{int64(p.Tally.Placed), "holds placed"}, {int64(p.Tally.Ended), "holds ended"},
		{int64(p.Operations), "operations put in order by porcupine"}, {int64(p.Objects), "nodes and slots that they are on"},
	} {
		fmt.Fprintf(out, "%6d  %s\n", f.n, f.what)
	}
	fmt.Fprintln(out)
	for _, v := range p.Violations[:min(shown, len(p.Violations))] {
		fmt.Fprintln(out, v)
	}
	fmt.Fprintf(out, "%d violations\n", len(p.Violations))
}

// Err says why a run is not a proof: what was broken, or what did not happen in it.
func (p *Report) Err() error {
	var errs []error
	if n := len(p.Violations); n > 0 {
		errs = append(errs, fmt.Errorf("%d violations", n))
	}
	for _, c := range p.Faults() {
		if c.Times < least {
			errs = append(errs, fmt.Errorf("%s: injected %d times, which is fewer than %d", c.Fault, c.Times, least))
		}
	}
	if p.Claims == 0 {
		errs = append(errs, errors.New("nothing was committed"))
	}
	if p.Tally.Moved == 0 || p.Tally.Bound == 0 {
		errs = append(errs, errors.New("no quota was dealt out and used up"))
	}
	if p.Tally.Placed == 0 {
		errs = append(errs, errors.New("no room was held"))
	}
	return errors.Join(errs...)
}
