// Package thread runs what changes the thread that it runs on, such as its namespaces or its
// cgroups, where nothing else will ever run.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Run runs f on a thread that is not the process's first and ends with f. Whatever f does to
// its thread ends with it, too, and the process as a whole stays as it was; what f forks is
// born as the thread is then.
func Run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			Run(f)
			return
		}
		f()
	}()
	<-done
}
