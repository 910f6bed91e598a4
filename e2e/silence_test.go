package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fault is what makes a node silent, and how long: until its tasks have been given up, or not.
type fault struct {
	what   string // partition | agent crash | reboot
	rejoin string // before | after the limit
}

func (f fault) node() string { return strings.ReplaceAll(f.what, " ", "-") + "-" + f.rejoin }

// silence is a row of the table of field case 53.
type silence struct {
	fault
	updated  bool   // the job, while the node is silent
	then     string // whenSilent.then
	survivor string // of all processes of the task, once the node is back
	starts   int    // of processes, on all nodes together
	state    string // of the job
}

// silences is the table, as docs/silence.md has it.
func silences() []silence {
	const (
		first  = "version 1, attempt 1"
		second = "version 1, attempt 2"
		newer  = "version 2, attempt 1"
		none   = "none"
	)
	return []silence{
		{fault{"partition", "before"}, false, "never", first, 1, "Running"},
		{fault{"partition", "before"}, false, "replace", first, 1, "Running"},
		{fault{"partition", "before"}, true, "never", newer, 2, "Running"},
		{fault{"partition", "before"}, true, "replace", newer, 2, "Running"},
		{fault{"partition", "after"}, false, "never", none, 1, "Failed"},
		{fault{"partition", "after"}, false, "replace", second, 2, "Running"},
		{fault{"partition", "after"}, true, "never", newer, 2, "Running"},
		{fault{"partition", "after"}, true, "replace", newer, 2, "Running"},
		{fault{"agent crash", "before"}, false, "never", first, 1, "Running"},
		{fault{"agent crash", "before"}, false, "replace", first, 1, "Running"},
		{fault{"agent crash", "before"}, true, "never", newer, 2, "Running"},
		{fault{"agent crash", "before"}, true, "replace", newer, 2, "Running"},
		{fault{"agent crash", "after"}, false, "never", none, 1, "Failed"},
		{fault{"agent crash", "after"}, false, "replace", second, 2, "Running"},
		{fault{"agent crash", "after"}, true, "never", newer, 2, "Running"},
		{fault{"agent crash", "after"}, true, "replace", newer, 2, "Running"},
		{fault{"reboot", "before"}, false, "never", none, 1, "Failed"},
		{fault{"reboot", "before"}, false, "replace", second, 2, "Running"},
		{fault{"reboot", "before"}, true, "never", newer, 2, "Running"},
		{fault{"reboot", "before"}, true, "replace", newer, 2, "Running"},
		{fault{"reboot", "after"}, false, "never", none, 1, "Failed"},
		{fault{"reboot", "after"}, false, "replace", second, 2, "Running"},
		{fault{"reboot", "after"}, true, "never", newer, 2, "Running"},
		{fault{"reboot", "after"}, true, "replace", newer, 2, "Running"},
	}
}

func (s silence) job() string {
	updated := "as-is"
	if s.updated {
		updated = "updated"
	}
	return s.node() + "-" + updated + "-" + s.then
}

// row is the row as docs/silence.md has it.
func (s silence) row() string {
	updated := "no"
	if s.updated {
		updated = "yes"
	}
	return fmt.Sprintf("| %s | %s | `%s` | %s the limit | %s | %d | %s |", s.what, updated, s.then, s.rejoin, s.survivor, s.starts, s.state)
}

// The table that people read is the one that is tested.
func TestSilenceTableIsDocumented(t *testing.T) {
	t.Parallel()
	var want []string
	for _, s := range silences() {
		want = append(want, s.row())
	}
	if got := regexp.MustCompile(`(?m)^\| (partition|agent crash|reboot) \|.*$`).FindAllString(contents("../docs/silence.md"), -1); !slices.Equal(got, want) {
		t.Errorf("docs/silence.md has\n%s\nthe test\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// file is the job of a row. Those whose node comes back before the limit, or which are to be
// updated first, have one that is never reached here: no cell of the table is a race.
func (s silence) file(version int, notes string) string {
	after := "10m"
	if s.rejoin == "after" && s.updated == (version == 2) {
		after = "3s"
	}
	return fmt.Sprintf(`
job: %[1]s
kind: batch
whenSilent: {then: %[2]s, after: %[3]s}
stop: {grace: 10s}
groups:
  - name: main
    cpu: 10m
    memory: 16Mi
    constraints: [{key: node, in: [%[4]s, spare]}]
    command: [sh, -c, 'echo started >> %[5]s/$1-0; trap "exit 0" TERM; sleep 1000 & wait $!', %[6]s, %[1]s, %[7]d]
`, s.job(), s.then, after, s.node(), notes, silenceMark, version)
}

// silenceMark stands in the command line of each task's process.
const silenceMark = "case53"

// survivors are the processes of each job that run on this machine, by what they are.
func survivors(notes string) map[string][]string {
	found := map[string][]string{}
	for _, pid := range pids() {
		args := strings.Split(strings.TrimRight(contents(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00"), "\x00")
		at := slices.Index(args, silenceMark)
		if at != 3 || len(args) != 6 || !strings.Contains(args[2], notes) { // a shim's has more
			continue
		}
		if _, runs := stat(pid); !runs {
			continue
		}
		attempt := ""
		for v := range bytes.SplitSeq([]byte(contents(fmt.Sprintf("/proc/%d/environ", pid))), []byte{0}) {
			if a, ok := bytes.CutPrefix(v, []byte("OHM_ATTEMPT=")); ok {
				attempt = string(a)
			}
		}
		is := fmt.Sprintf("version %s, attempt %s", args[5], attempt)
		if !slices.Contains(found[args[4]], is) { // a shell that is about to become its sleep looks the same
			found[args[4]] = append(found[args[4]], is)
		}
	}
	return found
}

// Field case 53: what becomes of a task on a node that is silent for a while, in each cell of
// the table at the same time, on real processes.
func TestCase53(t *testing.T) {
	t.Parallel()
	base, notes := shortDir(t), shortDir(t)
	server := start(t, "ohm", "server", "--embedded-etcd", "--data-dir", filepath.Join(base, "server"), "--address", "127.0.0.1:0",
		"--silent-after", "5s", "--lost-after", "10m", "--lost-grace", "1s", "--brake-nodes", "100")
	etcd := server.word("etcd")
	c := client{t, server.word("ready")}
	start(t, "ohm", "scheduler", "--policy", "batch", "--etcd", etcd)
	rows := silences()
	relays, agents := map[string]*relay{}, map[string]*process{}
	home := func(node string) string { return filepath.Join(base, node) }
	agent := func(node, address string) {
		agents[node] = start(t, "ohm", "agent", "--address", address, "--data-dir", home(node), "--node", node)
	}
	var faults []fault
	for _, s := range rows {
		if !slices.Contains(faults, s.fault) {
			faults = append(faults, s.fault)
		}
	}
	for _, f := range faults {
		node := f.node()
		t.Cleanup(func() { endTasks(t, home(node)) })
		relays[node] = startRelay(t, c.address)
		agent(node, relays[node].address)
	}
	var files []string
	for _, s := range rows {
		files = append(files, c.job(s.file(1, notes)))
	}
	c.ohm(append([]string{"run"}, files...)...)
	counted := func(s silence) int { return starts(t, notes, s.job(), 0) }
	all := func(ok func(s silence) bool) func() bool {
		return func() bool { return !slices.ContainsFunc(rows, func(s silence) bool { return !ok(s) }) }
	}
	running := func(s silence, view map[string]taskView) bool {
		v := view[s.job()+"/main/0"]
		return v.State == "Running" && v.Attempt == 1 && v.Node == s.node()
	}
	within(t, patience, "every job runs on its node", func() bool {
		view := map[string]taskView{}
		for _, v := range read[[]taskView](c, "task", "list") {
			view[v.Task] = v
		}
		return all(func(s silence) bool { return running(s, view) && counted(s) == 1 })()
	})
	t.Cleanup(func() { endTasks(t, home("spare")) })
	agent("spare", c.address)

	for _, f := range faults {
		switch node := f.node(); f.what {
		case "partition":
			relays[node].set(true)
		case "agent crash":
			agents[node].kill()
		case "reboot":
			agents[node].kill()
			endTasks(t, home(node))
		}
	}
	within(t, patience, "the nodes are silent, and the spare one is there", func() bool {
		states := map[string]string{}
		for _, n := range read[[]struct{ Node, State string }](c, "node", "list") {
			states[n.Node] = n.State
		}
		ok := states["spare"] == "Ready"
		for _, f := range faults {
			ok = ok && (states[f.node()] == "Silent" || states[f.node()] == "Lost")
		}
		return ok
	})
	files = nil
	for _, s := range rows {
		if s.updated {
			files = append(files, c.job(s.file(2, notes)))
		}
	}
	c.ohm(append([]string{"apply"}, files...)...)
	// What is given up is replaced while the node is silent; the rest waits for it.
	mid := func(s silence) int {
		if s.rejoin == "before" {
			return 1
		}
		return s.starts
	}
	within(t, patience, "what is to be given up was", func() bool {
		lost := map[string]bool{}
		for _, v := range read[[]taskView](c, "task", "list", "--attempts") {
			lost[v.Task] = lost[v.Task] || v.State == "Lost" && v.Cause == "NodeLost"
		}
		return all(func(s silence) bool {
			return lost[s.job()+"/main/0"] == (s.rejoin == "after") && counted(s) == mid(s)
		})()
	})
	// A partition and a crash end no process.
	for job, all := range survivors(notes) {
		for _, s := range rows {
			if old := slices.Contains(all, "version 1, attempt 1"); s.job() == job && old != (s.what != "reboot") {
				t.Errorf("while its node is silent, %s has %v", job, all)
			}
		}
	}

	boot := filepath.Join(base, "boot_id")
	if err := os.WriteFile(boot, []byte("11111111-2222-3333-4444-555555555555\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		switch node := f.node(); f.what {
		case "partition":
			relays[node].set(false)
		case "agent crash":
			agent(node, relays[node].address)
		case "reboot": // the same machine, which says that it has booted since
			cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`,
				boot, filepath.Join(programs, "ohm"), "agent", "--address", relays[node].address, "--data-dir", home(node), "--node", node)
			agents[node] = spawn(t, cmd)
		}
	}
	var wrong []string
	defer func() {
		if len(wrong) > 0 {
			t.Log(strings.Join(wrong, "\n"))
		}
	}()
	within(t, patience, "each cell is as the table says", func() bool {
		wrong = nil
		found := survivors(notes)
		states := map[string]string{}
		for _, j := range read[[]jobView](c, "status") {
			states[j.Job] = j.State
		}
		for _, s := range rows {
			want := []string{s.survivor}
			if s.survivor == "none" {
				want = nil
			}
			if got := found[s.job()]; !slices.Equal(got, want) || counted(s) != s.starts || states[s.job()] != s.state {
				wrong = append(wrong, fmt.Sprintf("%s: survivors %q, starts %d, %s; want %q, %d, %s", s.job(), got, counted(s), states[s.job()], s.survivor, s.starts, s.state))
			}
		}
		return len(wrong) == 0
	})
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	for _, s := range rows { // and it stays so
		if n := counted(s); n != s.starts {
			t.Errorf("%s was started %s times, want %d", s.job(), strconv.Itoa(n), s.starts)
		}
	}
	for node := range agents {
		nothingLeft(t, home(node))
	}
	c.ohm("audit")
}
