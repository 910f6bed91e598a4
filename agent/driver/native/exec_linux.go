package native

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ohmcell/ohm/agent/driver"
	"github.com/ohmcell/ohm/agent/driver/folder"
	"github.com/ohmcell/ohm/agent/driver/proc"
)

// joining is what a process under the verb native-exec, between the agent and the program,
// is told on its standard input's neighbour.
type joining struct {
	Command    proc.Process // of the task, whose namespaces are joined
	Namespaces bool
	OwnNetwork bool
	Terminal   bool
	Entry      entry
}

// Files of that process.
const (
	execJoining = 3 + iota
	execError   // why the program could not be started
)

// drain is how long output is waited for that something left behind may still write.
const drain = time.Second

// Exec starts the program below a process of its own that joins the task's namespaces.
func (d *Driver) Exec(ctx context.Context, id string, e driver.Exec) (int, error) {
	if err := folder.CheckID(id); err != nil {
		return 0, err
	}
	if len(e.Command) == 0 || e.Command[0] == "" {
		return 0, errors.New("there is no command to run")
	}
	dir := d.folder(id)
	held, err := folder.Held(dir)
	if !held {
		return 0, fmt.Errorf("task %s: %w", id, errors.Join(driver.ErrNotRunning, unlessGone(err)))
	}
	sp, err := folder.Read[spec](filepath.Join(dir, specFile))
	if err != nil {
		return 0, err
	}
	st, err := folder.Read[state](filepath.Join(dir, stateFile))
	command, started := st.command(sp, e.Container)
	if err != nil || !started || !command.Lives() {
		return 0, fmt.Errorf("container %s of task %s: %w", cmp.Or(e.Container, sp.name()), id, driver.ErrNotRunning)
	}
	all := sp.all()
	p := all[len(all)-1]
	if i := slices.IndexFunc(all, func(p program) bool { return p.name() == e.Container }); i >= 0 {
		p = all[i]
	}
	j := joining{command, sp.Namespaces, sp.OwnNetwork, e.Terminal, entry{
		Command: e.Command, Env: driver.Environment(p.Env, e.Env, ""), Dir: p.folder(sp.Scratch), Box: p.Box, Cgroups: st.Cgroups,
	}}
	if e.Dir != "" {
		j.Entry.Dir = e.Dir
	}
	if e.User != "" {
		j.Entry.Box.User = e.User
	}
	return d.exec(ctx, j, e)
}

func (d *Driver) exec(ctx context.Context, j joining, e driver.Exec) (int, error) {
	joinR, joinW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer joinR.Close()
	errorR, errorW, err := os.Pipe()
	if err != nil {
		joinW.Close()
		return 0, err
	}
	defer errorR.Close()
	cmd := exec.Command(d.executable, verbExec)
	cmd.Args[0] = "ohm"
	cmd.Env, cmd.Dir = []string{reexecuted + "=1"}, "/"
	cmd.ExtraFiles = []*os.File{joinR, errorW}
	cmd.WaitDelay = drain
	cmd.Stdout, cmd.Stderr = e.Stdout, e.Stderr
	var talk talk
	if e.Terminal {
		talk, err = terminal(cmd, j)
	} else if e.Stdin != nil {
		talk.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	errorW.Close()
	talk.started()
	if err != nil {
		joinW.Close()
		talk.close()
		return 0, err
	}
	err = errors.Join(json.NewEncoder(joinW).Encode(j), joinW.Close())
	talk.begin(e)
	ended := make(chan error, 1)
	go func() { // ends with the process, which is waited for
		said, err := io.ReadAll(io.LimitReader(errorR, 4096))
		if err == nil && len(said) > 0 {
			err = errors.New(string(said))
		}
		waitErr := cmd.Wait()
		if exit := (*exec.ExitError)(nil); err == nil && !errors.As(waitErr, &exit) && !errors.Is(waitErr, exec.ErrWaitDelay) {
			err = waitErr
		}
		ended <- err
	}()
	if err != nil {
		_ = cmd.Process.Kill()
	}
	for {
		select {
		case size := <-e.Resize:
			talk.resize(size)
		case endErr := <-ended:
			talk.finish()
			if err = errors.Join(err, endErr); err != nil {
				return 0, err
			}
			return code(syscall.WaitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus))), nil
		case <-ctx.Done():
			if s, err := proc.ReadStat(cmd.Process.Pid); err == nil {
				_ = kill(s.Process) // what it cannot reach goes with the task
			}
			_ = cmd.Process.Kill()
			<-ended
			talk.finish()
			return 0, ctx.Err()
		}
	}
}

// code is an end as a shell has it.
func code(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// execMain joins the task, starts the program and ends as it does.
func execMain() int {
	unix.CloseOnExec(execJoining)
	unix.CloseOnExec(execError)
	failed := func(err error) int {
		_, _ = fmt.Fprint(os.NewFile(execError, "error"), err) // the agent may be gone
		return 1
	}
	var j joining
	if err := json.NewDecoder(os.NewFile(execJoining, "joining")).Decode(&j); err != nil {
		return failed(err)
	}
	catch() // what is ignored here is not to be ignored by the program
	sys := &syscall.SysProcAttr{Setsid: true}
	if j.Terminal {
		sys.Setctty = true
	}
	pids := make(chan int)
	go func() {
		runtime.LockOSThread() // never unlocked: nothing else is to be forked where this thread forks
		pid, err := 0, error(nil)
		var mounts *os.File
		if j.Namespaces {
			mounts, err = join(j.Command, j.OwnNetwork)
		}
		if err == nil {
			pid, err = enter(j.Entry, []uintptr{0, 1, 2}, sys, mounts)
		}
		if err != nil {
			failed(err)
		}
		pids <- pid
		select {}
	}()
	pid := <-pids
	if pid == 0 {
		return 1
	}
	unix.Close(execError)
	return code(reap(pid))
}

// join takes what this thread forks into the namespaces of a task's command, but for that
// of its mounts, of which it gives a handle: where they are the task's, this program is not
// to be found.
func join(command proc.Process, network bool) (mounts *os.File, err error) {
	handle, err := command.Open()
	if err != nil {
		return nil, fmt.Errorf("join the task: %w", err)
	}
	defer unix.Close(handle)
	if mounts, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", command.Pid)); err != nil {
		return nil, err
	}
	if !command.Lives() { // or the mounts may be another process's
		return nil, proc.ErrGone
	}
	into := namespaces &^ unix.CLONE_NEWNS
	if network {
		into |= unix.CLONE_NEWNET
	}
	if err := unix.Setns(handle, into); err != nil {
		return nil, fmt.Errorf("join the task's namespaces: %w", err)
	}
	return mounts, nil
}

// Stats are what the task's cgroups have counted.
func (d *Driver) Stats(_ context.Context, id string) (driver.Stats, bool, error) {
	if err := folder.CheckID(id); err != nil {
		return driver.Stats{}, false, err
	}
	dir := d.folder(id)
	if held, err := folder.Held(dir); !held {
		return driver.Stats{}, false, unlessGone(err)
	}
	st, err := folder.Read[state](filepath.Join(dir, stateFile))
	if err != nil || !st.begun() {
		return driver.Stats{}, false, nil // only starting
	}
	s, ok := st.Cgroups.Stats()
	return s, ok, nil
}
