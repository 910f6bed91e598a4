// Package placetest runs a policy on scenarios written as text, and prints what it
// proposes as text: the script tests of the policies.
//
// A scenario is a txtar archive of two files, cell and want. Each line of cell is a verb,
// a name and settings:
//
//	node n1 cpu=4 memory=8Gi gpus=T4,T4 zone=a      a live node; other keys are attributes
//	node n2 cpu=4 dead | ineligible | drain          without a session; with an intent
//	hold n1 cpu=1 precedence=200                     room held on a node
//	job web kind=service precedence=200 min=2        the job of the groups that follow
//	group main count=3 cpu=1 memory=1Gi gpus=1 share=500m models=T4|V100 in=zone:a,b exists=ssd
//	live web/main/0 n1 gpus=0:500                    a live placement of that group's size
//	home 0/2      limit 8      seed 7
package placetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/ohmcell/ohm/schedulers"
	"github.com/ohmcell/ohm/schedulers/reconcile"
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

// Propose calls the policy, checks what must hold of any proposal, and prints it.
func Propose(t testing.TB, policy schedulers.Scheduler, in schedulers.Input) string {
	t.Helper()
	p, err := policy.Schedule(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	Check(t, in, p)
	return Print(p)
}

// Check asserts what must hold of any proposal: every need is claimed or explained and
// none twice, what is claimed fits the snapshot together, and an explanation's counts
// add up to the number of nodes.
func Check(t testing.TB, in schedulers.Input, p schedulers.Proposal) {
	t.Helper()
	open := map[cellstate.Slot]int{}
	jobs := map[cellstate.JobName]*cellstate.Job{}
	for _, w := range in.Work {
		jobs[w.Job.Name] = w.Job
		for _, n := range w.Needs {
			open[n.Slot] = n.Attempt
		}
	}
	// One after the other, as the commit would judge them: a snapshot with the first
	// ones in place for the second.
	s := in.Snapshot
	for i, txn := range p.Txns {
		judged := *txn
		judged.ID, judged.Snapshot = cellstate.TxnID(fmt.Sprint(i)), s.Revision()
		judged.Scheduler = jobs[txn.Claims[0].Slot.JobName()].Record.GetSpec().GetScheduler()
		if _, conflicts := cellstate.Validate(s, &judged); len(conflicts) > 0 {
			t.Errorf("transaction %d does not fit: %+v", i, conflicts)
		}
		for _, c := range txn.Claims {
			if attempt, ok := open[c.Slot]; !ok || attempt != c.Attempt {
				t.Errorf("%s (attempt %d) is claimed and was not asked for", c.Slot, c.Attempt)
			}
			delete(open, c.Slot)
		}
		s = Commit(t, s, &judged)
	}
	nodes := 0
	for range in.Snapshot.Nodes() {
		nodes++
	}
	for _, u := range p.Unplaced {
		sum := 0
		for _, r := range u.Reasons {
			sum += int(r.GetNodes())
		}
		if sum != nodes || u.Nodes != nodes {
			t.Errorf("%s/%s: the reasons add up to %d of %d nodes, in a cell of %d", u.Job, u.Group, sum, u.Nodes, nodes)
		}
		for _, slot := range u.Slots {
			if _, ok := open[slot]; !ok {
				t.Errorf("%s is explained and was claimed or not asked for", slot)
			}
			delete(open, slot)
		}
	}
	if len(open) > 0 {
		t.Errorf("neither claimed nor explained: %v", open)
	}
}

// Commit is the snapshot with the transaction's claims in place.
func Commit(t testing.TB, s *cellstate.Snapshot, txn *cellstate.Txn) *cellstate.Snapshot {
	t.Helper()
	at := s.Revision() + 1
	var changes []cellstate.Change
	for _, c := range txn.Claims {
		changes = append(changes, cellstate.Change{Revision: at, Key: c.Slot.PlacementKey(), Value: &ohmv1.Placement{
			Slot: c.Slot.Proto(), Attempt: int32(c.Attempt), Node: string(c.Node), Resources: c.Resources, Gpus: c.GPUs,
			Precedence: int32(c.Precedence), Scheduler: txn.Scheduler, Txn: string(txn.ID), Mode: txn.Mode,
		}})
	}
	next, _, err := s.Apply(cellstate.Batch{Revision: at, Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// Print writes a proposal down, a line for each claim and each reason.
func Print(p schedulers.Proposal) string {
	var b strings.Builder
	for _, txn := range p.Txns {
		mode := "incremental"
		if txn.Mode == cellstate.Atomic {
			mode = "atomic"
		}
		fmt.Fprintln(&b, mode)
		for _, c := range txn.Claims {
			fmt.Fprintf(&b, "  %s %s", c.Slot.Task(), c.Node)
			for _, g := range c.GPUs {
				fmt.Fprintf(&b, " gpu %s:%d", g.GetId(), g.GetMilli())
			}
			fmt.Fprintln(&b)
		}
	}
	for _, u := range p.Unplaced {
		fmt.Fprintf(&b, "unplaced %s/%s", u.Job.Name, u.Group)
		for _, s := range u.Slots {
			fmt.Fprintf(&b, " %d", s.Index)
		}
		fmt.Fprintf(&b, " of %d nodes\n", u.Nodes)
		for _, r := range u.Reasons {
			fmt.Fprintf(&b, "  %d %s %s: %s\n", r.GetNodes(), r.GetReason(), cmpOr(r.GetDimension(), "-"), r.GetDetail())
		}
	}
	return b.String()
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Input reads a cell: its snapshot, and as work all that reconcile says is needed, by
// precedence and then in the order of the text.
func Input(t testing.TB, text string) schedulers.Input {
	t.Helper()
	r := &reader{t: t, jobs: map[string]*ohmv1.Job{}}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 1 {
			r.line(words)
		}
	}
	for i := range r.records {
		r.records[i].Revision = 1
	}
	s, err := cellstate.NewSnapshot(1, r.records, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.in.Snapshot = s
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range r.order {
		job := s.Job(cellstate.JobName{Namespace: "default", Name: name})
		if needs := reconcile.Job(s, job, now).Needs; len(needs) > 0 {
			r.in.Work = append(r.in.Work, schedulers.Work{Job: job, Needs: needs})
		}
	}
	slices.SortStableFunc(r.in.Work, func(a, b schedulers.Work) int {
		return int(b.Job.Record.GetSpec().GetPrecedence()) - int(a.Job.Record.GetSpec().GetPrecedence())
	})
	return r.in
}

type reader struct {
	t       testing.TB
	in      schedulers.Input
	records []cellstate.Change
	jobs    map[string]*ohmv1.Job
	order   []string // of jobs
	job     *ohmv1.Job
}

func (r *reader) put(key cellstate.Key, value interface {
	cellstate.Change | any
}) {
}

func (r *reader) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		r.t.Fatalf("%q is not a number", s)
	}
	return n
}

var _ = resource.ParseCPU
