package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// owners are, of each GPU, the attempts whose processes have it in their environment, of the
// jobs with a prefix: a pid each.
func owners(prefix string) map[string]map[string]int {
	found := map[string]map[string]int{}
	for _, pid := range pids() {
		env := map[string]string{}
		for line := range strings.SplitSeq(contents(fmt.Sprintf("/proc/%d/environ", pid)), "\x00") {
			key, value, _ := strings.Cut(line, "=")
			env[key] = value
		}
		if _, runs := stat(pid); !runs || !strings.HasPrefix(env["OHM_JOB"], prefix) {
			continue
		}
		for id := range strings.SplitSeq(env["OHM_GPUS"], ",") {
			if found[id] == nil {
				found[id] = map[string]int{}
			}
			found[id][env["OHM_TASK"]+" attempt "+env["OHM_ATTEMPT"]] = pid
		}
	}
	return found
}

// TestCase45: while tasks start, stop and are killed at random, and the agent is killed
// again and again, a GPU has at most one owner: in the environment of processes whenever
// that is looked at, and in the store at every revision.
func TestCase45(t *testing.T) {
	t.Parallel()
	const rounds, changes, kills = 50, 10, 20
	dir := shortDir(t)
	server := start(t, "ohm", "server", "--embedded-etcd", "--data-dir", filepath.Join(dir, "s"), "--address", freeAddress(t))
	c := client{t, server.word("ready")}
	start(t, "ohm", "scheduler", "--policy", "batch", "--address", c.address)
	start(t, "ohm", "scheduler", "--policy", "ml", "--address", c.address)
	t.Cleanup(func() { endTasks(t, dir) })
	cards := filepath.Join(dir, "cards.json")
	var list []string
	for i := range 8 {
		list = append(list, fmt.Sprintf(`{"id":"card%d","model":"T4"}`, i))
	}
	if err := os.WriteFile(cards, []byte("["+strings.Join(list, ",")+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	node := func() *process {
		return start(t, "ohm", "agent", "--address", c.address, "--data-dir", dir, "--node", "here", "--gpus", "file:"+cards)
	}
	agent := node()
	within(t, patience, "the node is there with its cards", func() bool {
		a := c.try("node", "get", "here")
		return a.code == 0 && strings.Count(a.stdout, "Healthy") == 8
	})

	rng := rand.New(rand.NewPCG(45, 8))
	seen, most, next, killed := map[string]bool{}, 0, 0, 0
	var live []string
	for round := range rounds {
		var submit, stop []string
		for range changes {
			switch at := rng.IntN(10); {
			case at < 5 || len(live) == 0:
				name := fmt.Sprintf("case45-%d", next)
				next++
				live = append(live, name)
				submit = append(submit, c.job(fmt.Sprintf(`
job: %s
kind: %s
groups:
  - name: main
    cpu: 10m
    memory: 16Mi
    gpus: {count: %d}
    command: [sleep, "%g"]
`, name, []string{"batch", "ml"}[rng.IntN(2)], 1+rng.IntN(3), []float64{0.1, 0.5, 1000}[rng.IntN(3)])))
			case at < 8:
				i := rng.IntN(len(live))
				stop = append(stop, live[i])
				live = append(live[:i], live[i+1:]...)
			default: // one of the processes that are there now
				for _, by := range owners("case45-") {
					for _, pid := range by {
						if p, err := os.FindProcess(pid); err == nil {
							_ = p.Kill() // it may have ended
						}
						break
					}
					break
				}
			}
		}
		if len(submit) > 0 {
			c.ohm(append([]string{"run"}, submit...)...)
		}
		if len(stop) > 0 {
			c.ohm(append([]string{"stop"}, stop...)...)
		}
		if round*kills/rounds != (round+1)*kills/rounds {
			agent.kill()
			killed++
			agent = node()
		}
		within(t, patience, "a card is in use", func() bool { return len(owners("case45-")) > 0 })
		now := owners("case45-")
		most = max(most, len(now))
		for id, by := range now {
			seen[id] = true
			var alive []string
			for attempt, pid := range by { // the look took its time: who ended meanwhile is no owner
				if _, runs := stat(pid); runs {
					alive = append(alive, attempt)
				}
			}
			if len(alive) > 1 {
				t.Errorf("round %d: %s has the owners %v", round, id, alive)
			}
		}
	}
	if killed != kills || len(seen) != 8 || most < 3 {
		t.Errorf("the agent was killed %d times, %d cards were seen in use, %d at once: this shows little", killed, len(seen), most)
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir)
	c.ohm("audit")
}
