package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one of the run's own, ended by its pid.
type process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{}

	mu     sync.Mutex
	killed bool // by the run
}

// launch starts a program, whose log is appended to a file of its name.
func launch(dir, name, program string, args ...string) (*process, *bufio.Scanner, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the run, which ends them
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	p.cmd.Stdout = write
	err = p.cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() { // ends with the process
		defer close(p.ended)
		defer read.Close()
		_ = p.cmd.Wait() // how it ended is asked of its state
	}()
	return p, bufio.NewScanner(read), nil
}

// signal sends a signal to the process, and to nobody else: it is reaped by the run alone.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.cmd.Process.Signal(sig) // it may have ended
}

// kill ends it at once and waits for that.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// end asks it to end and waits for it.
func (p *process) end() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.kill()
	}
}

// alone says whether it has ended without having been told to.
func (p *process) alone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
		return !p.killed
	default:
		return false
	}
}

// word waits for a line that begins with a word, and returns its rest.
func word(lines *bufio.Scanner, name, word string) (string, error) {
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), word+" "); ok {
			return rest, nil
		}
	}
	return "", fmt.Errorf("%s did not say %q; its log says why", name, word)
}
