package replay

import (
	"fmt"
	"io"
	"strings"

	"github.com/ohmcell/ohm/cmd/ohm/child"
)

// cell is the running processes.
type cell struct {
	child.Set
	address string
}

// startCell starts a server with an etcd of its own in dir, the hollow nodes of a file
// and n scheduler processes.
func startCell(program, dir, nodes string, n int, log io.Writer) (_ *cell, err error) {
	c := &cell{Set: child.Set{Program: program, Log: log}}
	defer func() {
		if err != nil {
			c.End()
		}
	}()
	server, err := c.Start("server", "server", "--log-level", "error", "--embedded-etcd", "--data-dir", dir, "--address", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if c.address, err = server.Word("ready"); err != nil {
		return nil, err
	}
	if _, err = c.Start("hollow nodes", "agent", "--log-level", "error", "--hollow-nodes", nodes, "--address", c.address); err != nil {
		return nil, err
	}
	for i, policies := range shares(n) {
		_, err = c.Start(fmt.Sprintf("scheduler %d", i), "scheduler", "--log-level", "error",
			"--policy", strings.Join(policies, ","), "--instance", fmt.Sprintf("replay-%d", i), "--address", c.address)
		if err != nil {
			return nil, err
		}
	}
	return c, nil
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
