package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The members of two gangs on one node meet, each gang at its own master.
func TestGangsMeet(t *testing.T) {
	t.Parallel()
	d := startDev(t, shortDir(t), "--node", "localhost") // a name that processes here can connect to
	meet := func(name string) string {
		return d.job(fmt.Sprintf(`job: %s
kind: ml
retries: 0
groups:
  - name: main
    count: 3
    cpu: 10m
    memory: 16Mi
    command:
      - sh
      - -c
      - |
        if [ "$OHM_RANK" = 0 ]; then
          : > met
          while [ "$(sort -u met | wc -l)" -lt $((OHM_WORLD_SIZE - 1)) ]; do
            echo "$OHM_JOB" | busybox nc -l -p "$MASTER_PORT" >> met
          done
          test "$(sort -u met | tr '\n' ' ')" = "$OHM_JOB 1 $OHM_JOB 2 "
          exit
        fi
        while :; do
          case "$(echo "$OHM_JOB $OHM_RANK" | busybox nc "$MASTER_ADDR" "$MASTER_PORT" 2>/dev/null)" in
            "$OHM_JOB") exit 0 ;;
            "") sleep 0.1 ;;
            *) exit 3 ;;
          esac
        done
`, name))
	}
	one, two := meet("one"), meet("two")
	d.ohm("run", one)
	d.ohm("run", two, "--wait", "--timeout", patience.String())
	d.ohm("run", one, "--wait", "--timeout", patience.String())

	// The example of a gang that stays together waits for a node that has what it names.
	d.ohm("run", "../examples/jobs/rack.yaml")
	within(t, patience, "it waits for a zone", func() bool {
		return strings.Contains(d.ohm("explain", "near"), "of 1 node 1 kept off by its gang within zone (0 of 3 tasks of the gang would fit; node localhost has no zone)")
	})
	d.ohm("node", "label", "localhost", "zone=a")
	d.ohm("run", "../examples/jobs/rack.yaml", "--wait", "--timeout", patience.String())
}

// Field cases 29 and 34 end to end: a gang starts with its minimum when its patience is over; one
// that loses a node for too long gives up the others, and is whole again once there is room.
func TestCase29And34Gangs(t *testing.T) {
	t.Parallel()
	dir, address := shortDir(t), freeAddress(t)
	startEtcd(t, filepath.Join(dir, "etcd"), address)
	c := client{t, start(t, "ohm", "server", "--etcd", address, "--address", "127.0.0.1:0").word("ready")}
	start(t, "ohm", "scheduler", "--policy", "ml", "--address", c.address)
	write(t, filepath.Join(dir, "nodes.csv"), "sn,cpu_milli,memory_mib,gpu,model\nn1,2000,131072,0,\nn2,2000,131072,0,\nn3,2000,131072,0,\n")
	start(t, "ohm", "agent", "--address", c.address, "--hollow-nodes", filepath.Join(dir, "nodes.csv"))
	gang := func(name string, count int, policy string) string {
		return strings.Replace(gangOf(name, count, "1Gi"), "kind: ml", "kind: ml\n"+policy, 1)
	}
	running := func(name string, n int) func() bool {
		return func() bool {
			got := 0
			for _, task := range c.tasks(name) {
				if task.State == "Running" {
					got++
				}
			}
			return got == n
		}
	}
	c.ohm("run", c.job(gang("elastic", 4, "gang: {min: 2, timeout: 3s, onTimeout: startWithMin}")))
	within(t, patience, "it waits for all four", func() bool {
		return strings.Contains(c.ohm("explain", "elastic"), "it starts with as many as fit")
	})
	within(t, patience, "then it starts with three", running("elastic", 3))
	c.ohm("stop", "elastic", "--wait", "--timeout", patience.String())

	c.ohm("run", c.job(gang("whole", 3, "gang: {whenBroken: {after: 2s}}")))
	within(t, patience, "all three run", running("whole", 3))
	c.ohm("node", "drain", "n1")
	within(t, patience, "the other two are released", func() bool {
		ends := map[string]int{}
		for _, task := range c.tasks("whole") {
			ends[task.Cause]++
		}
		return running("whole", 0)() && ends["GangBroken"] == 2
	})
	c.ohm("node", "resume", "n1")
	within(t, patience, "the gang is whole again", running("whole", 3))
	c.ohm("audit")
}
