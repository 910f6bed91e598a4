package robustness

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is one process of the cell: this program with other arguments. It is ended by
// its pid.
type process struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *os.File
	lines   *bufio.Scanner
	stopped bool // by SIGSTOP
}

// wait is how long a process may take to answer.
const wait = 40 * time.Second

// start runs this program with arguments, and waits until it says that it is ready. What it
// logs is appended to a file of its name in dir.
func start(program, dir, name string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(program, args...)}
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the run, which ends them
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.lines = bufio.NewScanner(out)
	if file, ok := out.(*os.File); ok {
		p.out = file
	}
	if _, err := p.word("ready"); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// word waits for a line that begins with a word, and returns its rest.
func (p *process) word(word string) (string, error) {
	if p.out != nil {
		_ = p.out.SetReadDeadline(time.Now().Add(wait)) // a pipe that has none waits
	}
	for p.lines.Scan() {
		if rest, ok := strings.CutPrefix(p.lines.Text(), word); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("%s did not say %q: %w", p.name, word, errors.Join(p.lines.Err(), io.ErrUnexpectedEOF))
}

// ask sends a line and waits for the answer that begins with its first word.
func (p *process) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	word, _, _ := strings.Cut(line, " ")
	return p.word(word)
}

// kill ends the process at once and waits for it.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = p.cmd.Wait() // it was killed
	return nil
}

// stop freezes the process as it stands, and resume lets it go on.
func (p *process) stop() error {
	p.stopped = true
	return p.cmd.Process.Signal(syscall.SIGSTOP)
}

func (p *process) resume() error {
	p.stopped = false
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// alive fails if the process has ended by itself.
func (p *process) alive() error {
	if err := p.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		return fmt.Errorf("%s ended by itself: %w", p.name, err)
	}
	// One that has ended and was not waited for still takes signals.
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return nil // no such file system
	}
	if rest := string(raw[strings.LastIndexByte(string(raw), ')')+1:]); strings.HasPrefix(rest, " Z") {
		return fmt.Errorf("%s ended by itself; its log says why", p.name)
	}
	return nil
}
