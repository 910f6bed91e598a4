package drivertest

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/pkg/task"
)

// layered is an image that takes back with one layer what it has put with another.
func layered() Image {
	return Image{Layers: []Layer{
		{"data/": "", "data/kept": "kept", "data/gone": "gone", "data/changed": "first", "old/": "", "old/file": "old"},
		{"data/.wh.gone": "", "data/changed": "second", "old/": "", "old/.wh..wh..opq": "", "old/new": "new"},
	}}
}

// layeredShows is a script, and what it says in that image.
const (
	layeredShows = "echo $(cat /data/kept) $(cat /data/changed) $(ls /data) $(ls /old)"
	layeredSays  = "kept second changed kept new\n"
)

func imageOfTwoKinds(t *testing.T, b *bench) {
	tarFile, layout := MakeImage(t, layered())
	for range 2 { // the second time they are here already
		for _, image := range []string{"tar:" + tarFile, "oci:" + layout} {
			id := b.start(in(driver.Box{Image: image}, layeredShows))
			b.expectExit(b.ended(id), 0)
			if out := b.log(id, "stdout"); out != layeredSays {
				t.Errorf("%s: it sees %q", image, out)
			}
			b.must(b.driver.Remove(b.Context(), id))
			b.clean(id)
		}
		b.restart()
	}
}

func imageSettings(t *testing.T, b *bench) {
	tarFile, _ := MakeImage(t, Image{
		User: "nobody", Dir: "/tmp", Env: []string{"A=of the image", "B=too"}, Command: []string{"sh", "-c", "echo $(id -u) $PWD $A $B"},
	})
	box := driver.Box{Image: "tar:" + tarFile}
	id := b.start(driver.Task{Box: box, Env: map[string]string{"B": "of the task"}})
	b.expectExit(b.ended(id), 0)
	if out := b.log(id, "stdout"); out != "65534 /tmp of the image of the task\n" {
		t.Errorf("it said %q", out)
	}
	box.User, box.Dir = "0", "/bin"
	other := b.start(in(box, "echo $(id -u) $PWD"))
	b.expectExit(b.ended(other), 0)
	if out := b.log(other, "stdout"); out != "0 /bin\n" {
		t.Errorf("it said %q", out)
	}
	b.fails(driver.Task{Box: driver.Box{Image: imageOf(t, Image{})}}, task.StartFailed, "command")
}

func imageOf(t *testing.T, image Image) string {
	tarFile, _ := MakeImage(t, image)
	return "tar:" + tarFile
}

// imageRootIsOwn: what a task writes is its own, and the node is not to be seen.
func imageRootIsOwn(t *testing.T, b *bench) {
	secret := filepath.Join(t.TempDir(), "of the node")
	b.must(os.WriteFile(secret, nil, 0o644))
	box := driver.Box{Image: imageOf(t, Image{})}
	first := b.start(in(box, `echo x >/written && rm /bin/yes && echo done; [ -e "`+secret+`" ] && echo seen`+stay))
	b.says(first, "done")
	second := b.start(in(box, "ls /written /bin/yes 2>/dev/null; ls -d /proc/[0-9]* | wc -l"))
	b.ended(second)
	if out := b.log(first, "stdout"); out != "done\n" {
		t.Errorf("the first said %q", out)
	}
	if out := b.log(second, "stdout"); !strings.HasPrefix(out, "/bin/yes\n") || strings.Contains(out, "written") {
		t.Errorf("the second sees %q", out)
	}
	o := b.observe(first)
	for _, ns := range []string{"pid", "mnt", "ipc", "uts"} {
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		b.must(err)
		if theirs, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(o.Pid), "ns", ns)); theirs == ours {
			t.Errorf("its %s namespace is the node's", ns)
		}
	}
	if got := b.status(o.Pid, "NoNewPrivs") + b.status(o.Pid, "Seccomp"); got != "12" {
		t.Errorf("NoNewPrivs and Seccomp are %s", got)
	}
}

func imageMissing(t *testing.T, b *bench) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, image := range []string{"tar:" + missing, "oci:" + missing} {
		b.fails(in(driver.Box{Image: image}, "true"), task.ImageNotFound, missing)
	}
}

// imageBroken: bytes that are not what their digest says never run.
func imageBroken(t *testing.T, b *bench) {
	garbage := filepath.Join(t.TempDir(), "garbage")
	b.must(os.WriteFile(garbage, []byte("no tar"), 0o644))
	b.fails(in(driver.Box{Image: "tar:" + garbage}, "true"), task.StartFailed, garbage)

	_, layout := MakeImage(t, Image{Layers: []Layer{{"tampered": "with"}}})
	blobs, err := filepath.Glob(filepath.Join(layout, "blobs/sha256/*"))
	b.must(err)
	for _, path := range blobs {
		data, err := os.ReadFile(path)
		b.must(err)
		b.must(os.WriteFile(path, []byte(strings.ReplaceAll(string(data), "tampered", "tAmpered")), 0o644))
	}
	b.fails(in(driver.Box{Image: "oci:" + layout}, "true"), task.StartFailed, layout)
}

func imageFromRegistry(t *testing.T, b *bench) {
	l, r := Listen(t, "127.0.0.1:0"), NewRegistry(t, layered())
	r.At(t, l)
	box := driver.Box{Image: l.Addr().String() + "/some/image:1"}
	var asked int64
	for i := range 2 {
		id := b.start(in(box, layeredShows))
		b.expectExit(b.ended(id), 0)
		if out := b.log(id, "stdout"); out != layeredSays {
			t.Errorf("it sees %q", out)
		}
		if i == 0 {
			asked = r.asked.Load()
		}
		b.restart()
	}
	if again := r.asked.Load(); asked == 0 || again != asked {
		t.Errorf("the registry was asked %d times, and %d for the second task", asked, again-asked)
	}
}

func imageNotFound(t *testing.T, b *bench) {
	l := Listen(t, "127.0.0.1:0")
	NewRegistry(t, Image{}).At(t, l)
	begin := time.Now()
	for _, name := range []string{"/some/image:2", "/other/image:1"} {
		image := l.Addr().String() + name
		b.fails(in(driver.Box{Image: image}, "true"), task.ImageNotFound, image)
	}
	if took := time.Since(begin); took > patience {
		t.Errorf("that took %v", took)
	}
}

func imageDenied(t *testing.T, b *bench) {
	l, r := Listen(t, "127.0.0.1:0"), NewRegistry(t, Image{})
	r.Deny.Store(true)
	r.At(t, l)
	image := l.Addr().String() + "/some/image:1"
	b.fails(in(driver.Box{Image: image}, "true"), task.ImageDenied, image)
}

// privateRegistry: a registry gives an image to nobody but who has the right credentials, as
// they are at that time.
func privateRegistry(t *testing.T, b *bench) {
	for _, login := range []Login{{User: "me", Secret: "right:one"}, {User: "me", Secret: "right:one", Token: true}} {
		l, r := Listen(t, "127.0.0.1:0"), NewRegistry(t, Image{})
		r.Login = &login
		r.At(t, l)
		image := l.Addr().String() + "/some/image:1"
		for _, secret := range []string{"", "wrong", "right:one"} {
			auths := `{"auths": {}}`
			if secret != "" {
				auths = fmt.Sprintf(`{"auths": {"https://other.example": {"auth": "bm86Ym9keQ=="}, %q: {"auth": %q}}}`,
					l.Addr(), base64.StdEncoding.EncodeToString([]byte("me:"+secret)))
			}
			b.must(os.WriteFile(b.RegistryAuth, []byte(auths), 0o600))
			work := in(driver.Box{Image: image}, "exit 4")
			if secret != login.Secret {
				b.fails(work, task.ImageDenied, image)
				continue
			}
			b.expectExit(b.ended(b.start(work)), 4)
		}
	}
}

// away is the address of a registry that nobody serves yet.
func away(t *testing.T) string {
	t.Helper()
	l := Listen(t, "127.0.0.1:0")
	defer l.Close()
	return l.Addr().String()
}

func registryComesBack(t *testing.T, b *bench) {
	address := away(t)
	work := b.named(in(driver.Box{Image: address + "/some/image:1"}, "exit 8"))
	started := make(chan error, 1)
	go func() { started <- b.driver.Start(b.Context(), work) }()
	Eventually(t, "it is starting", func() bool {
		o, ok, err := b.driver.Observe(b.Context(), work.ID)
		return err == nil && ok && o.State == task.Starting
	})
	select {
	case err := <-started:
		t.Fatalf("with the registry away it started: %v", err)
	case <-time.After(time.Second): // several tries fail
	}
	NewRegistry(t, Image{}).At(t, Listen(t, address))
	b.must(<-started)
	b.expectExit(b.ended(work.ID), 8)
}

func registryStaysAway(t *testing.T, b *bench) {
	image := away(t) + "/some/image:1"
	work := in(driver.Box{Image: image}, "true")
	work.StartBy = time.Now().Add(2 * time.Second)
	o := b.fails(work, task.StartDeadline, image)
	if o.Ended.Before(work.StartBy.Add(-100 * time.Millisecond)) {
		t.Errorf("it gave up at %v, before %v", o.Ended, work.StartBy)
	}
}

func killEndsAWaitingStart(t *testing.T, b *bench) {
	work := b.named(in(driver.Box{Image: away(t) + "/some/image:1"}, "true"))
	started := make(chan error, 1)
	go func() { started <- b.driver.Start(b.Context(), work) }()
	Eventually(t, "it is starting", func() bool {
		o, ok, err := b.driver.Observe(b.Context(), work.ID)
		return err == nil && ok && o.State == task.Starting
	})
	begin := time.Now()
	b.must(b.driver.Kill(b.Context(), work.ID))
	if err := <-started; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the start ended with %v", err)
	}
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("that took %v", took)
	}
	if o := b.observe(work.ID); o.State != task.Failed || o.Cause != task.StartFailed {
		t.Errorf("observed %+v", o)
	}
}
