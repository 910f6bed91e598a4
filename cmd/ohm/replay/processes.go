package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// child is one process of the cell, ended by its pid.
type child struct {
	name  string
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// startChild runs this program with other arguments. What it logs goes to log.
func startChild(program, name string, log io.Writer, args ...string) (*child, error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = log
	// The children are this process's to end, also on Ctrl-C.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "GOGC=400")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &child{name, cmd, bufio.NewScanner(out)}, nil
}

// word waits for a line "<key> <value>" on the child's stdout.
func (c *child) word(key string) (string, error) {
	for c.lines.Scan() {
		if value, ok := strings.CutPrefix(c.lines.Text(), key+" "); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s ended before it said %q", c.name, key)
}

// end asks the child to end and waits for it; after ten seconds it is killed.
func (c *child) end() {
	// Its own errors at the end are in the log.
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.cmd.Wait()
}

// cell is the running processes.
type cell struct {
	address  string
	endpoint string // of its etcd
	children []*child
}

// startCell starts a server with an etcd of its own in dir, the hollow nodes of a file
// and n scheduler processes.
func startCell(ctx context.Context, program, dir, nodes string, n int, log io.Writer) (_ *cell, err error) {
	c := &cell{}
	defer func() {
		if err != nil {
			c.end()
		}
	}()
	start := func(name string, args ...string) (*child, error) {
		child, err := startChild(program, name, log, append(args, "--log-level", "error")...)
		if err == nil {
			c.children = append(c.children, child)
		}
		return child, err
	}
	server, err := start("server", "server", "--embedded-etcd", "--data-dir", dir, "--address", "127.0.0.1:0")
	if err != nil {
		return c, err
	}
	if c.endpoint, err = server.word("etcd"); err != nil {
		return c, err
	}
	if c.address, err = server.word("ready"); err != nil {
		return c, err
	}
	if _, err = start("hollow nodes", "agent", "--hollow-nodes", nodes, "--address", c.address); err != nil {
		return c, err
	}
	for i, policies := range shares(n) {
		name := fmt.Sprintf("scheduler %d", i)
		if _, err = start(name, "scheduler", "--policy", strings.Join(policies, ","), "--instance", fmt.Sprintf("replay-%d", i), "--address", c.address); err != nil {
			return c, err
		}
	}
	return c, ctx.Err()
}

// shares says which policies each of n scheduler processes runs: process i runs policy
// i mod 3, and with fewer than three of them some run several.
func shares(n int) [][]string {
	policies := []string{"service", "batch", "ml"}
	out := make([][]string, n)
	for i := range max(n, len(policies)) {
		out[i%n] = append(out[i%n], policies[i%len(policies)])
	}
	return out
}

func (c *cell) end() {
	for i := len(c.children) - 1; i >= 0; i-- {
		c.children[i].end()
	}
}

// alive fails when a process of the cell has ended by itself.
func (c *cell) alive() error {
	for _, child := range c.children {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(child.cmd.Process.Pid, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) || pid > 0 {
			return fmt.Errorf("%s ended by itself (%v); its log says why", child.name, status)
		}
	}
	return nil
}
