package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// With these in its environment the test's own binary is an etcd on that folder, at that
// address.
const (
	etcdDirVar = "E2E_ETCD_DIR"
	etcdURLVar = "E2E_ETCD_URL"
	// And with this one, it takes no writes once its file is of so many bytes.
	etcdQuotaVar = "E2E_ETCD_QUOTA"
	// And with this one, "name name=http://peer,…", a member of that name of a cluster.
	etcdClusterVar = "E2E_ETCD_CLUSTER"
)

// etcdMain is an etcd with etcd's own limits. It ends when it is killed.
func etcdMain(dir, address string) int {
	client, err := url.Parse(address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	peer := url.URL{Scheme: "http", Host: "localhost:2380"} // one member: nobody listens there
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = dir, "error"
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	if quota := os.Getenv(etcdQuotaVar); quota != "" {
		if cfg.QuotaBackendBytes, err = strconv.ParseInt(quota, 10, 64); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if name, cluster, ok := strings.Cut(os.Getenv(etcdClusterVar), " "); ok {
		cfg.Name, cfg.InitialCluster = name, cluster
		for member := range strings.SplitSeq(cluster, ",") {
			if address, mine := strings.CutPrefix(member, name+"="); mine {
				peer, err := url.Parse(address)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					return 1
				}
				cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
			}
		}
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-server.Server.ReadyNotify()
	fmt.Println("ready", address)
	fmt.Fprintln(os.Stderr, <-server.Err())
	return 1
}

// startEtcd starts an etcd in a process of its own.
func startEtcd(t *testing.T, dir, address string, env ...string) *process {
	t.Helper()
	p := spawnEtcd(t, dir, address, env...)
	p.word("ready")
	return p
}

func spawnEtcd(t *testing.T, dir, address string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = environment(append(env, etcdDirVar+"="+dir, etcdURLVar+"=http://"+address)...)
	return spawn(t, cmd)
}

// startEtcds starts three members of one etcd, by their addresses for clients.
func startEtcds(t *testing.T, dir string) map[string]*process {
	t.Helper()
	var cluster []string
	for i := range 3 {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, freeAddress(t)))
	}
	members := map[string]*process{}
	for i := range 3 {
		name := fmt.Sprintf("m%d", i)
		address := freeAddress(t)
		members[address] = spawnEtcd(t, filepath.Join(dir, name), address, etcdClusterVar+"="+name+" "+strings.Join(cluster, ","))
	}
	for _, m := range members {
		m.word("ready")
	}
	return members
}

// freeAddress is a loopback address that was free just now, for what is started again at
// the same one. It is outside of the range from which the kernel chooses ports for others.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// The cell's etcd dies and comes back: tasks go on, the command line says that the cell
// is not there, and afterwards everything goes on where it was.
func TestEtcdGoesAway(t *testing.T) {
	t.Parallel()
	dir, notes, address := shortDir(t), shortDir(t), freeAddress(t)
	etcd := startEtcd(t, filepath.Join(dir, "etcd"), address)
	server := start(t, "ohm", "server", "--etcd", address, "--address", "127.0.0.1:0")
	c := client{t, server.word("ready")}
	start(t, "ohm", "scheduler", "--policy", "batch,service", "--address", c.address)
	t.Cleanup(func() { endTasks(t, dir) })
	start(t, "ohm", "agent", "--address", c.address, "--data-dir", dir, "--node", "here")
	c.run(service("svc", 1, notes))
	pid := c.tasks("svc")["svc/main/0"].Pid
	was := alive(t, pid)

	etcd.kill()
	hello := c.job(batch("hello", 2))
	a := c.try("run", hello)
	if a.code != 3 || a.took > 10*time.Second {
		t.Errorf("run: exit code %d after %v", a.code, a.took)
	}
	if !strings.Contains(a.stderr, "could not answer") || !strings.Contains(a.stderr, "store") {
		t.Errorf("run says: %s", a.stderr)
	}
	if got := alive(t, pid); got != was {
		t.Errorf("the task was %s, now it is %s", was, got)
	}

	startEtcd(t, filepath.Join(dir, "etcd"), address)
	within(t, patience, "a job can be submitted again", func() bool { return c.try("run", hello).code == 0 })
	within(t, patience, "the new job succeeds", func() bool { return c.status("hello").State == "Succeeded" })
	v := c.tasks("svc")["svc/main/0"]
	if got := alive(t, v.Pid); got != was || v.Attempt != 1 || starts(t, notes, "svc", 0) != 1 {
		t.Errorf("the task was %s, now it is %s, attempt %d, started %d times", was, got, v.Attempt, starts(t, notes, "svc", 0))
	}
	c.ohm("stop", "--all", "--wait", "--timeout", patience.String())
	nothingLeft(t, dir, pid)
	c.ohm("audit")
}
