package agent

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

func TestFacts(t *testing.T) {
	c := FactsConfig{DataDir: t.TempDir(), Version: "1"}
	n, err := Facts(c)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "name", n.GetName(), label(host))
	equal(t, "hostname", n.GetAttributes()["hostname"], host)
	equal(t, "boot id", n.GetBootId(), strings.TrimSpace(string(boot)))
	equal(t, "os and arch", n.GetAttributes()["os"]+n.GetAttributes()["arch"], "linux"+runtime.GOARCH)
	equal(t, "cores", n.GetCapacity().GetCpuMilli(), int64(runtime.NumCPU()*1000))
	if c := n.GetCapacity(); c.GetMemoryBytes() < 64<<20 || c.GetDiskBytes() < 1<<20 || n.GetAttributes()["kernel"] == "" {
		t.Errorf("capacity %v, attributes %v", c, n.GetAttributes())
	}
	again, err := Facts(c)
	if err != nil || !proto.Equal(again, n) {
		t.Errorf("other facts the second time: %v, %v", again, err)
	}
	c.Name, c.Reserve = "other", &ohmv1.Resources{CpuMilli: 500}
	if other, err := Facts(c); err != nil || other.GetName() != "other" || other.GetCapacity().GetCpuMilli() != n.GetCapacity().GetCpuMilli()-500 {
		t.Errorf("with a name and a reserve: %v, %v", other, err)
	}
	c.Name = "Not_A_Label"
	if _, err := Facts(c); err == nil || !strings.Contains(err.Error(), "not-a-label") {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := Facts(FactsConfig{DataDir: "/does/not/exist"}); err == nil {
		t.Error("a folder that is not there has a disk")
	}
}
