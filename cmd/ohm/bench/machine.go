package bench

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// cpuTime is what a process has used.
type cpuTime struct{ seconds, rss float64 }

// Profile writes a CPU profile of this process to a file until the returned function is
// called; with no file it does nothing.
func Profile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// ticks of a second in /proc/<pid>/stat, on every Linux that Go runs on.
const ticks = 100

// cpuOf reads what a process has used; pid 0 is this one. Where there is no /proc it is
// nothing.
func cpuOf(pid int) cpuTime {
	name := "self"
	if pid > 0 {
		name = strconv.Itoa(pid)
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", name))
	if err != nil {
		return cpuTime{}
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 22 {
		return cpuTime{}
	}
	number := func(i int) float64 { n, _ := strconv.ParseFloat(f[i], 64); return n }
	return cpuTime{seconds: (number(11) + number(12)) / ticks, rss: number(21) * float64(os.Getpagesize())}
}

// storeSize is the size of etcd's database in bytes; 0 if it does not answer.
func storeSize(ctx context.Context, endpoint string) float64 {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 5 * time.Second})
	if err != nil {
		return 0
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := client.Status(ctx, endpoint)
	if err != nil {
		return 0
	}
	return float64(status.DbSize)
}
