package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver/containerd/containerdtest"
	"github.com/ohmcell/ohm/agent/driver/drivertest"
)

// startBoxes starts a cell whose node runs tasks in containers.
func startBoxes(t *testing.T, args ...string) *dev {
	t.Helper()
	ctd := containerdtest.Run(t)
	dir := shortDir(t)
	t.Cleanup(func() { // cgroups are removed from the bottom up; a parent that holds another one stays
		root, _ := filepath.EvalSymlinks(filepath.Join(dir, "agent", "containerd"))
		sum := sha256.Sum256([]byte(root))
		for _, at := range []string{"/sys/fs/cgroup/ohm-", "/sys/fs/cgroup/*/ohm-"} {
			left, _ := filepath.Glob(at + hex.EncodeToString(sum[:16]))
			for _, group := range left {
				_ = os.Remove(group)
			}
		}
	})
	d := startDev(t, dir, append([]string{"--driver", "containerd", "--containerd-address", ctd.Socket()}, args...)...)
	t.Cleanup(func() { // before containerd's end
		if d.running() {
			d.ohm("stop", "--all")
			within(t, patience, "containerd holds nothing of any task", func() bool { return len(ctd.Mounts()) == 0 })
		}
	})
	return d
}

// attemptView is what `ohm task list -o json` says of an attempt.
type attemptView struct {
	Task, State, Cause, Message string
	Attempt                     int
}

// only is the newest attempt of a job's one task.
func (c client) only(job string) attemptView {
	c.t.Helper()
	all := read[[]attemptView](c, "task", "list", job)
	if len(all) != 1 {
		c.t.Fatalf("job %s has tasks %v", job, all)
	}
	return all[0]
}

// TestExampleInAContainer runs the example in a real image, and one that eats memory.
func TestExampleInAContainer(t *testing.T) {
	t.Parallel()
	d := startBoxes(t)
	image := filepath.Join(t.TempDir(), "busybox.tar")
	if out, err := exec.Command("../hack/busybox-image.sh", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const example = "../examples/jobs/container.yaml"
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	const there = "/tmp/busybox.tar"
	if strings.Count(string(text), "tar:"+there) != 1 {
		t.Fatalf("%s does not name %s", example, there)
	}
	d.ohm("run", d.job(strings.ReplaceAll(string(text), there, image)), "--wait", "--timeout", patience.String())
	if said := d.ohm("logs", "container"); !strings.Contains(said, "hello from nobody in an image with ") || !strings.Contains(said, "1048576") {
		t.Errorf("it said %q", said)
	}

	d.ohm("run", d.job(fmt.Sprintf(`
job: stays
kind: service
groups:
  - name: main
    image: tar:%s
    command: [sleep, "1000"]
    cpu: 100m
    memory: 64Mi
`, image)), "--wait", "--timeout", patience.String())
	if a := d.try("exec", "stays", "--", "sh", "-c", "ls /bin/busybox; exit 7"); a.code != 7 || a.stdout != "/bin/busybox\n" {
		t.Errorf("a program in the container: exit code %d, %q, %q", a.code, a.stdout, a.stderr)
	}
	stats := read[[]struct {
		Usage struct{ MemoryLimitBytes, Processes int64 }
	}](d.client, "task", "stats", "stays")
	if len(stats) != 1 || stats[0].Usage.MemoryLimitBytes != 64<<20 || stats[0].Usage.Processes < 1 {
		t.Errorf("stats say %+v", stats)
	}

	eater := fmt.Sprintf(`
job: eater
kind: batch
groups:
  - name: main
    image: tar:%s
    command: [sh, -c, "x=x; while :; do x=$x$x; done"]
    cpu: 100m
    memory: 64Mi
`, image)
	if a := d.try("run", d.job(eater), "--wait", "--timeout", patience.String()); a.code != 1 {
		t.Errorf("exit code %d: %s", a.code, a.stderr)
	}
	if v := d.only("eater"); v.Cause != "OOMKilled" || v.State != "Failed" || !strings.Contains(v.Message, "its limit is 64Mi, it used up to ") {
		t.Errorf("the eater is %+v", v)
	}

	d.several("tar:" + image)

	const cannot = "1 of 1 nodes cannot: host-root (driver containerd)"
	if a := d.try("run", "../examples/jobs/hello.yaml"); a.code != 0 || !strings.Contains(a.stderr, cannot) {
		t.Errorf("exit code %d, %s", a.code, a.stderr)
	}
	within(t, patience, "explain says what is missing", func() bool {
		said := d.ohm("explain", "hello")
		return strings.Contains(said, "Cannot") && strings.Contains(said, "host-root")
	})
	d.ohm("stop", "hello", "--wait", "--timeout", patience.String())
}

// several runs a job of several containers in the image: each with its own environment, all
// with the task's scratch folder.
func (d *dev) several(image string) {
	d.t.Helper()
	d.ohm("run", d.job(fmt.Sprintf(`
job: boxes
kind: batch
groups:
  - name: main
    cpu: 100m
    memory: 64Mi
    env: {WORD: shared}
    containers:
      - {name: fetch, role: init, image: "%[1]s", command: [sh, -c, "echo $WORD $OHM_TASK >$HOME/fetched"]}
      - {name: beside, role: sidecar, image: "%[1]s", command: [sh, -c, "until [ -e $HOME/fetched ]; do sleep 0.1; done; cp $HOME/fetched $HOME/draft; mv $HOME/draft $HOME/served; sleep 1000"]}
      - {name: app, image: "%[1]s", env: {WORD: own}, command: [sh, -c, "until [ -e $HOME/served ]; do sleep 0.1; done; echo $WORD, $(cat $HOME/served)"]}
`, image)), "--wait", "--timeout", patience.String())
	if said := d.ohm("logs", "boxes"); said != "own, shared boxes/main/0\n" {
		d.t.Errorf("several containers said %q", said)
	}
}

// gpuJob is a job file: one task with the node's only GPU, in an image.
func gpuJob(name, image string) string {
	return fmt.Sprintf(`
job: %s
kind: batch
groups:
  - name: main
    image: %s
    command: [echo, ran]
    cpu: 100m
    memory: 32Mi
    gpus: {count: 1}
    startDeadline: 10m
`, name, image)
}

// TestCase113: an image that is missing or denied fails at once under its own cause and gives
// back what its task held, so that the next job starts; a registry that is down is waited
// for, by nobody's doing; and a job that waits so can be stopped.
func TestCase113(t *testing.T) {
	t.Parallel()
	d := startBoxes(t, "--gpus", "0=T4")
	here, denied := drivertest.NewRegistry(t, drivertest.Image{}), drivertest.NewRegistry(t, drivertest.Image{})
	denied.Deny.Store(true)
	listener, other := drivertest.Listen(t, "127.0.0.1:0"), drivertest.Listen(t, "127.0.0.1:0")
	here.At(t, listener)
	denied.At(t, other)

	began := time.Now()
	for job, c := range map[string]struct{ image, cause string }{
		"typo":   {listener.Addr().String() + "/some/image:tpyo", "ImageNotFound"},
		"denied": {other.Addr().String() + "/some/image:1", "ImageDenied"},
	} {
		if a := d.try("run", d.job(gpuJob(job, c.image)), "--wait", "--timeout", patience.String()); a.code != 1 {
			t.Errorf("%s: exit code %d: %s", job, a.code, a.stderr)
		}
		if v := d.only(job); v.State != "Failed" || v.Cause != c.cause || v.Attempt != 1 || !strings.Contains(v.Message, c.image) {
			t.Errorf("%s is %+v", job, v)
		}
		if said := d.ohm("explain", job); !strings.Contains(said, c.cause) || !strings.Contains(said, c.image) {
			t.Errorf("explain says %s", said)
		}
	}
	good := listener.Addr().String() + "/some/image:1"
	d.run(gpuJob("good", good))
	if said := d.ohm("logs", "good"); said != "ran\n" {
		t.Errorf("the next job said %q", said)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("that took %v", took)
	}

	nobody := drivertest.Listen(t, "127.0.0.1:0")
	address := nobody.Addr().String()
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	waits := gpuJob("waits", address+"/some/image:1")
	d.ohm("run", d.job(waits))
	within(t, patience, "the task waits for its registry", func() bool { return d.only("waits").State == "Starting" })
	d.ohm("run", d.job(gpuJob("behind", good)))
	if s := d.only("behind"); s.State != "Pending" {
		t.Errorf("a second job has the GPU, too: %+v", s)
	}
	d.ohm("stop", "waits", "--wait", "--timeout", patience.String())
	if v := d.only("waits"); v.State != "Stopped" || v.Cause != "Stopped" {
		t.Errorf("stopped while it waited it is %+v", v)
	}
	within(t, patience, "the next job has the GPU", func() bool { return d.status("behind").State == "Succeeded" })

	d.ohm("run", d.job(waits))
	within(t, patience, "the task waits again", func() bool { return d.only("waits").State == "Starting" })
	drivertest.NewRegistry(t, drivertest.Image{}).At(t, drivertest.Listen(t, address))
	within(t, patience, "it starts by itself once the registry is there", func() bool { return d.status("waits").State == "Succeeded" })
	if v := d.only("waits"); v.Attempt != 1 {
		t.Errorf("it took %d attempts", v.Attempt)
	}
}

// TestImagesWithoutADaemon: the node of any cell runs images of registries, and several
// containers a task.
func TestImagesWithoutADaemon(t *testing.T) {
	t.Parallel()
	auth := filepath.Join(t.TempDir(), "auth.json")
	if err := os.WriteFile(auth, []byte(`{"auths": {}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDev(t, shortDir(t), "--registry-auth", auth)
	listener := drivertest.Listen(t, "127.0.0.1:0")
	drivertest.NewRegistry(t, drivertest.Image{User: "nobody"}).At(t, listener)
	image := listener.Addr().String() + "/some/image:1"
	boxed := fmt.Sprintf(`
job: boxed
kind: batch
groups:
  - name: main
    image: %s
    command: [sh, -c, "id -u; echo x >$HOME/file && cat $HOME/file; [ -e %s ] && echo of the node; true"]
    cpu: 100m
    memory: 32Mi
`, image, d.dir)
	d.run(boxed)
	if said := d.ohm("logs", "boxed"); said != "65534\nx\n" {
		t.Errorf("it said %q", said)
	}

	d.several(image)
	d.private(auth)
	d.ohm("run", "../examples/jobs/several.yaml", "--wait", "--timeout", patience.String())
	if said := d.ohm("logs", "several"); said != "hello from several/main/0\n" {
		t.Errorf("the example said %q", said)
	}
}

// private runs a job in an image of a registry that asks who wants it: without credentials in
// the node's file it fails at once, with them it runs.
func (d *dev) private(auth string) {
	d.t.Helper()
	listener := drivertest.Listen(d.t, "127.0.0.1:0")
	registry := drivertest.NewRegistry(d.t, drivertest.Image{})
	registry.Login = &drivertest.Login{User: "node", Secret: "secret", Token: true}
	registry.At(d.t, listener)
	run := func(name string) answer {
		return d.try("run", d.job(fmt.Sprintf(`
job: %s
kind: batch
groups:
  - {name: main, image: "%s/some/image:1", command: ["true"], cpu: 100m, memory: 32Mi}
`, name, listener.Addr())), "--wait", "--timeout", patience.String())
	}
	if a, v := run("denied"), d.only("denied"); a.code != 1 || v.Cause != "ImageDenied" {
		d.t.Errorf("without credentials: exit code %d, %+v", a.code, v)
	}
	text := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, listener.Addr(), base64.StdEncoding.EncodeToString([]byte("node:secret")))
	if err := os.WriteFile(auth, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if a, v := run("admitted"), d.only("admitted"); a.code != 0 || v.State != "Succeeded" {
		d.t.Errorf("with credentials: exit code %d, %+v", a.code, v)
	}
}
