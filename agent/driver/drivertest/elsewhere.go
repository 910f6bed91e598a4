package drivertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/ohmcell/ohm/agent/driver"
)

// verbElsewhere makes a test's program an agent of its own: it starts tasks and waits to be
// killed.
const verbElsewhere = "test-start-elsewhere"

// Elsewhere is for a driver's TestMain: if this process is one that StartElsewhere has
// started, it makes a driver of the words that were handed over there, starts the tasks, and
// waits for the end of the test. Else it returns false at once.
func Elsewhere(open func(words []string) (driver.Driver, error)) bool {
	args := os.Args[1:]
	if len(args) < 2 || args[0] != verbElsewhere {
		return false
	}
	if err := elsewhere(open, args[1], args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return true
}

func elsewhere(open func([]string) (driver.Driver, error), tasks string, words []string) error {
	d, err := open(words)
	if err != nil {
		return err
	}
	var list []driver.Task
	if err := json.Unmarshal([]byte(tasks), &list); err != nil {
		return err
	}
	for _, work := range list {
		if err := d.Start(context.Background(), work); err != nil {
			return err
		}
	}
	fmt.Println("started")
	_, err = os.Stdin.Read(make([]byte, 1)) // until the test's end at the latest
	return err
}

// StartElsewhere starts the tasks in another process, which makes its driver of the words
// (Elsewhere), and returns when they were started. kill ends that process at once.
func StartElsewhere(t *testing.T, tasks []driver.Task, words ...string) (kill func()) {
	t.Helper()
	list, err := json.Marshal(tasks)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", slices.Concat([]string{verbElsewhere, string(list)}, words)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed: that is its error
			stdin.Close()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "started\n" {
		t.Fatalf("the other agent says %q, %v", line, err)
	}
	return kill
}
