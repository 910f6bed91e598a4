// Command ohm is the whole of Ohm in one binary: the parts of a cell (dev, server,
// scheduler, agent) and the client that people and pipelines call.
//
// A file holds one verb. The verbs only translate: flags to API messages, and API
// messages to what is printed. What an error means to the caller is in exit.go.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/ohmcell/ohm/agent/driver/native"
)

func main() {
	if native.Hidden(os.Args[1:]) { // the native driver's own processes
		os.Exit(native.Main(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the next one has its usual effect, so that nobody is
	// locked in by a slow end.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// run is one call of ohm: args without the program's name, env as of os.Environ. It
// returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	return int(newApp(stdin, stdout, stderr, env).run(ctx, args))
}
