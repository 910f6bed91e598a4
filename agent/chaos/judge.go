package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// judge waits until the cell is at rest, looks, stops everything, and looks again.
func (r *run) judge(ctx context.Context, report *Report) error {
	r.say("at rest: wait until what runs is what is wanted")
	if err := until(ctx, restWithin, func() error { return r.rest(ctx) }); err != nil {
		report.Unrest = append(report.Unrest, err.Error())
	}
	var last []string
	for _, j := range r.jobs {
		if j.kind.service && !j.stopped {
			last = append(last, j.name)
		}
	}
	r.say("stop the %d jobs that are left", len(last))
	if err := r.stop(ctx, last); err != nil {
		return err
	}
	if err := until(ctx, emptyWithin, func() error { return r.empty() }); err != nil {
		report.Leaks = append(report.Leaks, err.Error())
	}
	attempts, err := r.attempts(ctx)
	if err != nil {
		return err
	}
	notes, err := os.ReadFile(filepath.Join(r.notes, "notes"))
	if err != nil {
		return err
	}
	report.Attempts, report.On = len(attempts), map[string]int{}
	for _, n := range r.world.nodes {
		report.On[n.name] = 0
	}
	for _, a := range attempts {
		if a.GetNode() != "" {
			report.On[a.GetNode()]++
		}
	}
	report.Doubles = doubles(string(notes))
	report.Needless = needless(r.jobs, attempts)
	return nil
}

// attempts are all of them, as the store has them.
func (r *run) attempts(ctx context.Context) ([]*ohmv1.TaskView, error) {
	list, err := ohmv1.NewJobsClient(r.world.conn).ListTasks(ctx, &ohmv1.ListTasksRequest{Attempts: true})
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return list.GetTasks(), nil
}

// wanted is the state in which the tasks of a job are to be at rest.
func (j *job) wanted() string {
	switch {
	case j.stopped:
		return "Stopped"
	case j.kind.service:
		return "Running"
	}
	return "Succeeded"
}

// rest says what is not as it is wanted: in the store, and then on the machine by the locks of
// the slots.
func (r *run) rest(ctx context.Context) error {
	list, err := ohmv1.NewJobsClient(r.world.conn).ListTasks(ctx, &ohmv1.ListTasksRequest{})
	if err != nil {
		return err
	}
	newest := map[string]*ohmv1.TaskView{}
	for _, t := range list.GetTasks() {
		newest[t.GetTask()] = t
	}
	for _, j := range r.jobs {
		for i := range j.count {
			id := fmt.Sprintf("%s/main/%d", j.name, i)
			// A slot that was stopped before its task had a node has no attempt to show.
			if got := newest[id].GetState(); got != j.wanted() && !(j.stopped && got == "") {
				return fmt.Errorf("task %s is %s, wanted %s", id, got, j.wanted())
			}
		}
	}
	notes, err := os.ReadFile(filepath.Join(r.notes, "notes"))
	if err != nil {
		return err
	}
	for _, j := range r.jobs {
		for i := range j.count {
			slot, want := fmt.Sprintf("%s.%d", j.name, i), j.wanted() == "Running"
			attempt := newest[fmt.Sprintf("%s/main/%d", j.name, i)].GetAttempt()
			// Only then is its lock taken, and nobody is in the way who looks whether it is.
			if want && !strings.Contains(string(notes), fmt.Sprintf(" %s %d\n", slot, attempt)) {
				return fmt.Errorf("task %s is running by the store, and has not begun", slot)
			}
			runs, err := locked(filepath.Join(r.notes, "locks", slot))
			if err != nil {
				return err
			}
			if runs != want {
				return fmt.Errorf("task %s is to be %s; a process of it lives: %v", slot, j.wanted(), runs)
			}
		}
	}
	return nil
}

// locked says whether any process has the lock of a slot. For a moment it has it itself: not
// to be asked while a task of the slot may be starting.
func locked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return false, nil // it never ran
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	return err != nil, nil
}

// doubles are attempts that began twice, and tasks that began while another of their slot
// was alive, by the notes that they wrote.
func doubles(notes string) (found []string) {
	begun := map[string]int{}
	for line := range strings.Lines(notes) {
		word, attempt, _ := strings.Cut(strings.TrimSpace(line), " ")
		begun[attempt]++
		if word != "begin" {
			found = append(found, "beside another of its slot: "+attempt)
		}
	}
	for _, attempt := range slices.Sorted(maps.Keys(begun)) {
		if n := begun[attempt]; n > 1 {
			found = append(found, fmt.Sprintf("begun %d times: %s", n, attempt))
		}
	}
	return found
}

// needless are the ends of attempts that the script, or the user, did not want; and attempts
// that are missing.
func needless(jobs []*job, attempts []*ohmv1.TaskView) (found []string) {
	byTask := map[string][]*ohmv1.TaskView{}
	for _, t := range attempts {
		byTask[t.GetTask()] = append(byTask[t.GetTask()], t)
	}
	for _, j := range jobs {
		want := j.kind.ends(j.seconds)
		if j.kind.service {
			want = []string{"Stopped"}
		}
		for i := range j.count {
			id := fmt.Sprintf("%s/main/%d", j.name, i)
			list := byTask[id]
			slices.SortFunc(list, func(a, b *ohmv1.TaskView) int { return int(a.GetAttempt() - b.GetAttempt()) })
			n := 0
			for _, t := range list {
				if t.GetAttempt() == 0 {
					continue // a slot without an attempt
				}
				if n >= len(want) || t.GetCause() != want[n] || int(t.GetAttempt()) != n+1 {
					found = append(found, fmt.Sprintf("%s attempt %d on %s: %s %s (%s), its script: %q", id, t.GetAttempt(), t.GetNode(), t.GetState(), t.GetCause(), t.GetMessage(), want))
				}
				n++
			}
			if n < len(want) && !j.stopped {
				found = append(found, fmt.Sprintf("%s has %d attempts, its script: %q", id, n, want))
			}
		}
	}
	return found
}
