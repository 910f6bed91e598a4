package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The example with GPUs runs on the devices that it asks for, and what cannot be told of
// devices any more is shown on the node (field case 44).
func TestDevicesExample(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cards := filepath.Join(dir, "cards.json")
	write := func(text string) {
		if err := os.WriteFile(cards, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`[{"id":"t0","model":"T4","memory":17179869184},{"id":"a0","model":"A100","memory":85899345920},{"id":"a1","model":"A100","memory":85899345920}]`)
	d := startDev(t, dir, "--gpus", "file:"+cards)
	d.ohm("run", "../examples/jobs/devices.yaml", "--wait", "--timeout", patience.String())
	if got := d.ohm("logs", "devices/train/0"); got != "train on a0,a1\n" {
		t.Errorf("of two of one model with 40Gi: %q", got)
	}
	for i := range 4 {
		if got := d.ohm("logs", fmt.Sprintf("devices/serve/%d", i)); got != "serve on t0\n" {
			t.Errorf("of a quarter of the T4: %q", got)
		}
	}
	d.ohm("run", d.job("job: three\nkind: batch\ngroups:\n- {name: main, cpu: 10m, memory: 8Mi, command: [\"true\"], gpus: {count: 3, sameModel: true}}\n"))
	within(t, patience, "the devices that were seen are told", func() bool {
		return strings.Contains(d.ohm("explain", "three"), "most free: 2 of 3 whole GPUs of one model on node here: 1×T4, 2×A100")
	})
	write("[{")
	within(t, patience, "the node says that its devices cannot be told", func() bool {
		got := d.ohm("node", "get", "here")
		return strings.Contains(got, "device error") && strings.Contains(got, "unexpected end of JSON")
	})
}
