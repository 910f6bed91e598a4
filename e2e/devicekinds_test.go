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

// Field case 48: a device that is bad for a while takes no new task, whoever has it hears of it
// and goes on, and then it is as before, without a restart of anything. A fault of a program is
// none of the device.
func TestCase48(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	cards := filepath.Join(dir, "cards.json")
	fault := func(faults map[string]int) {
		var list []string
		for i := range 8 {
			id, told := fmt.Sprintf("card%d", i), ""
			if code := faults[id]; code > 0 {
				told = fmt.Sprintf(`,"faults":[{"code":%d,"what":"so it says"}]`, code)
			}
			list = append(list, fmt.Sprintf(`{"id":%q,"model":"T4"%s}`, id, told))
		}
		draft := cards + ".new" // never seen half written
		if err := os.WriteFile(draft, []byte("["+strings.Join(list, ",")+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(draft, cards); err != nil {
			t.Fatal(err)
		}
	}
	fault(nil)
	d := startDev(t, dir, "--gpus", "file:"+cards)
	job := func(name string, count int, command string) string {
		return d.job(fmt.Sprintf("job: %s\nkind: batch\ngroups:\n- {name: main, cpu: 10m, memory: 8Mi, gpus: {count: %d}, command: %s}\n", name, count, command))
	}
	d.ohm("run", job("holder", 1, `[sh, -c, "echo $OHM_GPUS; exec sleep 1000"]`))
	within(t, patience, "the holder has said which it has", func() bool { return strings.HasSuffix(d.try("logs", "holder").stdout, "\n") })
	own := strings.TrimSpace(d.ohm("logs", "holder"))
	other := "card0"
	if own == other {
		other = "card1"
	}
	was := alive(t, d.pid("holder/main/0"))

	fault(map[string]int{own: 63, other: 13})
	within(t, patience, "one of eight is bad, and its holder hears of it", func() bool {
		return strings.Count(d.ohm("node", "get", "here"), "Healthy") == 7 &&
			d.only("holder").Message == "GPU "+own+": Bad: code 63: so it says"
	})
	if v := d.tasks("holder")["holder/main/0"]; v.State != "Running" || v.Attempt != 1 || alive(t, v.Pid) != was {
		t.Errorf("the holder is %+v", v)
	}
	d.ohm("stop", "holder", "--wait", "--timeout", patience.String())
	d.ohm("run", job("all", 8, `["true"]`))
	within(t, patience, "who wants all eight waits and is told why", func() bool {
		return strings.Contains(d.ohm("explain", "all"), "1 of 8 not usable, such as "+own+": Bad: code 63: so it says")
	})
	d.ohm("run", job("seven", 7, `[sh, -c, "echo $OHM_GPUS"]`), "--wait", "--timeout", patience.String())
	if said := d.ohm("logs", "seven"); strings.Contains(said, own) || !strings.Contains(said, other) {
		t.Errorf("seven got %q, with %s bad", said, own)
	}
	fault(nil)
	within(t, patience, "all eight are used", func() bool { return d.status("all").State == "Succeeded" })
	if n := strings.Count(d.ohm("node", "get", "here"), "Healthy"); n != 8 {
		t.Errorf("%d cards are healthy", n)
	}
}
