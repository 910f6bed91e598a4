// Package child runs the parts of a cell as processes of this program, for verbs that
// need a whole cell of their own for a while.
package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Process is one process of the cell, ended by its pid.
type Process struct {
	name  string
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// Start runs a program, mostly this one, with other arguments. What it logs goes to log.
func Start(program, name string, log io.Writer, args ...string) (*Process, error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = log
	// The children are this process's to end, also on Ctrl-C.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Process{name, cmd, bufio.NewScanner(out)}, nil
}

// Word waits for a line "<key> <value>" on the child's stdout.
func (c *Process) Word(key string) (string, error) {
	for c.lines.Scan() {
		if value, ok := strings.CutPrefix(c.lines.Text(), key+" "); ok {
			return value, nil
		}
	}
	return "", fmt.Errorf("%s ended before it said %q", c.name, key)
}

// End asks the child to end and waits for it; after ten seconds it is killed.
func (c *Process) End() {
	// Its own errors at the end are in the log.
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.cmd.Wait()
}

// Finish asks the child to end and waits for a last line "<key> <value>" from it.
func (c *Process) Finish(key string) (string, error) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // if it has ended, its last line may still be there
	return c.Word(key)
}

// Pid is the child's process id.
func (c *Process) Pid() int { return c.cmd.Process.Pid }

// Alive fails when the child has ended by itself.
func (c *Process) Alive() error {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(c.Pid(), &status, syscall.WNOHANG, nil)
	if errors.Is(err, syscall.ECHILD) || pid > 0 {
		return fmt.Errorf("%s ended by itself (%v); its log says why", c.name, status)
	}
	return nil
}

// Set is the children of one cell.
type Set struct {
	Program string
	Log     io.Writer
	all     []*Process
}

// Start starts one more.
func (s *Set) Start(name string, args ...string) (*Process, error) {
	p, err := Start(s.Program, name, s.Log, args...)
	if err == nil {
		s.all = append(s.all, p)
	}
	return p, err
}

// End ends all, the last one first.
func (s *Set) End() {
	for i := len(s.all) - 1; i >= 0; i-- {
		s.all[i].End()
	}
	s.all = nil
}

// Alive fails when one has ended by itself.
func (s *Set) Alive() error {
	for _, p := range s.all {
		if err := p.Alive(); err != nil {
			return err
		}
	}
	return nil
}
