//go:build linux

// Command ohm-init is pid 1 of a container. The containerd driver puts it before a task's
// command, since a pid 1 ignores every signal that it has no handler for, reaps no orphan,
// and is all of which a container runtime learns the end, as one number from which an exit
// code of 137 cannot be told from a SIGKILL. And it is what containerd's shim starts to
// write what a container says to the task's logs, outside of the container; and, outside
// as well, it keeps the network of a task that has one of its own.
//
//	ohm-init REPORT COMMAND [ARGUMENT...]
//	ohm-init log SEGMENTS
//	ohm-init net FOLDER LISTENERS
//
// It writes lines to the file REPORT: "started PID" or "failed WHY", and at the end "exited
// CODE" or "signalled NUMBER". Then it ends whatever the command has left behind, and exits
// as a shell would. It is a program of its own, and small, because its memory and its threads
// are charged to the task, and linked statically, because it runs in anybody's image.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// What a shell returns for a command that it cannot run, or find.
const (
	cannotRun = 126
	notFound  = 127
)

func main() {
	if os.Getpid() != 1 && len(os.Args) == 3 && os.Args[1] == logVerb {
		if err := writeLogs(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 && len(os.Args) == 4 && os.Args[1] == netVerb {
		fmt.Fprintln(os.Stderr, keepNetwork(os.Args[3]))
		os.Exit(1)
	}
	// Anywhere else it would end every process of the machine that it may end.
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "ohm-init is for the containerd driver's use, as pid 1 of a container")
		os.Exit(2)
	}
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: ohm-init REPORT COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	report, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND|syscall.O_CLOEXEC, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(run(report, os.Args[2:]))
}

func run(report *os.File, command []string) int {
	// Handled and dropped, not ignored: what is ignored would be so for the command, too.
	signal.Notify(make(chan os.Signal, 1))
	path, err := lookPath(command[0])
	if err != nil {
		fmt.Fprintf(report, "failed %s\n", oneLine(err))
		return notFound
	}
	pid, err := syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		fmt.Fprintf(report, "failed cannot run %s: %s\n", path, oneLine(err))
		return cannotRun
	}
	fmt.Fprintf(report, "started %d\n", pid)
	status := wait(pid)
	end()
	if status.Signaled() {
		fmt.Fprintf(report, "signalled %d\n", status.Signal())
		return 128 + int(status.Signal())
	}
	fmt.Fprintf(report, "exited %d\n", status.ExitStatus())
	return status.ExitStatus()
}

// wait reaps whatever ends until the command does.
func wait(command int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		if pid, _ := syscall.Wait4(-1, &status, 0, nil); pid == command {
			return status
		}
	}
}

// end kills all others in the container and reaps them. What this user may not kill goes
// with the pid namespace.
func end() {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		if os.Getpid() != 1 {
			return // see main
		}
		_ = syscall.Kill(-1, syscall.SIGKILL) // there may be nobody
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if err == syscall.ECHILD {
				return
			}
			if pid <= 0 {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// lookPath finds a command as a shell would.
func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // the kernel says what is wrong with it
	}
	why := fs.ErrNotExist
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 == 0:
			why = fs.ErrPermission
		default:
			return path, nil
		}
	}
	if errors.Is(why, fs.ErrPermission) {
		return "", fmt.Errorf("command %q in PATH=%s may not be executed", name, os.Getenv("PATH"))
	}
	return "", fmt.Errorf("command %q not found in PATH=%s", name, os.Getenv("PATH"))
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }
