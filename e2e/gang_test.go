package e2e

import (
	"fmt"
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
