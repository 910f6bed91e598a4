package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// execFailed is the exit code of `ohm exec` where it is not the program's.
const execFailed exitCode = 125

// inputSize is the most bytes of input in one message.
const inputSize = 32 << 10

func execCommand(a *app) *cobra.Command {
	start := &ohmv1.ExecStart{}
	var list bool
	cmd := &cobra.Command{
		Use:   "exec JOB | JOB/GROUP | JOB/GROUP/INDEX -- COMMAND [ARGUMENT...]",
		Short: "Run a program in a running task",
		Long: `Run a program in a running task: in its namespaces, as its user, held to its limits.
The program ends with this command, and this command with the program. With -i the
program reads the standard input, with -t it has a terminal.

The exit code is the program's, 128 and the number of a signal that ended it; where
there is none, because ohm itself failed or the task does not run, it is 125.

Who has run what, when, where, and how it ended is kept in the cell for the newest
thousand programs, and shown by --list; it is written down before a program begins, and
a program that cannot be written down is not run. The server's log has a line for each.`,
		Example: `  ohm exec web/main/0 -- ls -l
  ohm exec -t web/main/0 -- sh
  ohm exec -i web/main/0 --container proxy -- tee /tmp/config < config
  ohm exec --list web`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				if len(args) > 1 {
					return refuse("`ohm exec --list` needs at most the name of a job")
				}
				req := &ohmv1.ListExecsRequest{Namespace: a.client.Namespace}
				if len(args) > 0 {
					req.Job, req.Namespace = args[0], a.namespace()
				}
				return a.listExecs(cmd.Context(), req)
			}
			if len(args) < 2 {
				return refuse("`ohm exec` needs one task and a command: ohm exec JOB/GROUP/INDEX -- COMMAND")
			}
			if cmd.Flags().Changed("output") {
				return refuse("-o goes with --list")
			}
			var task ohmv1.LogsRequest
			if err := readTask(args[0], &task); err != nil {
				return err
			}
			start.Namespace, start.Job, start.Group, start.Index, start.AnyIndex = a.namespace(), task.Job, task.Group, task.Index, task.AnyIndex
			start.Command = args[1:]
			start.Stdin = start.Stdin || start.Terminal
			return a.exec(cmd.Context(), start)
		},
	}
	cmd.Flags().StringVar(&start.Container, "container", "", "container of the task (default: the main one)")
	cmd.Flags().BoolVarP(&start.Stdin, "stdin", "i", false, "pass the standard input on")
	cmd.Flags().BoolVarP(&start.Terminal, "tty", "t", false, "with a terminal; goes with -i")
	cmd.Flags().BoolVar(&list, "list", false, "list the programs that were run in tasks, the newest first")
	outputFlag(cmd, listFormats()...)
	return cmd
}

// exec returns the program's own exit code as a fault that says nothing.
func (a *app) exec(ctx context.Context, start *ohmv1.ExecStart) error {
	c := a.cell()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	restore, sizes, err := a.raw(start)
	if err != nil {
		return a.execFault(ctx, err)
	}
	defer restore()
	stream, err := c.jobs.Exec(ctx)
	if err == nil {
		err = stream.Send(&ohmv1.ExecInput{Start: start})
	}
	if err != nil {
		return a.execFault(ctx, err)
	}
	var mu sync.Mutex // one sends at a time
	send := func(in *ohmv1.ExecInput) error {
		mu.Lock()
		defer mu.Unlock()
		return stream.Send(in)
	}
	if start.Stdin {
		go a.sendInput(send) // may stay in a Read when the program has ended; it ends with this process
	}
	var resizing sync.WaitGroup
	resizing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-sizes:
				if size := a.size(); size != nil {
					_ = send(&ohmv1.ExecInput{Size: size}) // Recv says what is wrong
				}
			}
		}
	})
	defer resizing.Wait()
	defer cancel()
	for {
		out, err := stream.Recv()
		if err != nil {
			restore()
			return a.execFault(ctx, a.unknownJobs(ctx, c, err, start.Job))
		}
		_, err = a.stdout.Write(out.Stdout)
		if _, more := a.stderr.Write(out.Stderr); err == nil {
			err = more
		}
		if err != nil {
			return a.execFault(ctx, err)
		}
		if end := out.End; end != nil {
			if end.Code == 0 {
				return nil
			}
			return &fault{code: exitCode(end.Code)}
		}
	}
}

// execFault is a failure of ohm's own.
func (a *app) execFault(ctx context.Context, err error) error {
	f := *a.explainError(ctx, err)
	f.code = execFailed
	return &f
}

// sendInput sends what there is to read.
func (a *app) sendInput(send func(*ohmv1.ExecInput) error) {
	buf := make([]byte, inputSize)
	for {
		n, err := a.stdin.Read(buf)
		if n > 0 && send(&ohmv1.ExecInput{Stdin: append([]byte(nil), buf[:n]...)}) != nil {
			return // Recv says why
		}
		if err != nil {
			_ = send(&ohmv1.ExecInput{End: true})
			return
		}
	}
}

// raw hands the terminal to the program, if there is one and it wants one. restore may be
// called more than once.
func (a *app) raw(start *ohmv1.ExecStart) (restore func(), sizes <-chan os.Signal, err error) {
	f, ok := a.stdin.(*os.File)
	if !start.Terminal || !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}, nil, nil
	}
	start.Size = a.size()
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, nil, err
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	return sync.OnceFunc(func() {
		signal.Stop(changed)
		_ = term.Restore(int(f.Fd()), before) // there is nobody else who could
	}), changed, nil
}

// size is that of the terminal; nil where there is none.
func (a *app) size() *ohmv1.TerminalSize {
	f, ok := a.stdin.(*os.File)
	if !ok {
		return nil
	}
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns <= 0 || rows <= 0 {
		return nil
	}
	return &ohmv1.TerminalSize{Columns: uint32(columns), Rows: uint32(rows)}
}

func (a *app) listExecs(ctx context.Context, req *ohmv1.ListExecsRequest) error {
	c := a.cell()
	list, err := c.jobs.ListExecs(ctx, req)
	if err != nil {
		return err
	}
	if len(list.Execs) == 0 {
		a.note("no programs were run")
	}
	type row = *ohmv1.ExecRecord
	return a.show(view{
		json:  many(list.Execs),
		names: namesOf(list.Execs, row.GetTask),
		table: func(p *printer) {
			if len(list.Execs) == 0 {
				return
			}
			columns(p, list.Execs,
				column[row]{title: "SINCE", cell: func(r row) string { return p.app.ago(r.Time) }},
				column[row]{title: "WHO", cell: row.GetWho},
				column[row]{title: "NAMESPACE", cell: row.GetNamespace, skip: !p.wide && oneNamespace(list.Execs, row.GetNamespace)},
				column[row]{title: "TASK", cell: row.GetTask},
				column[row]{title: "ATTEMPT", cell: func(r row) string { return number(r.Attempt) }},
				column[row]{title: "NODE", cell: row.GetNode},
				column[row]{title: "RESULT", cell: row.GetResult},
				column[row]{title: "COMMAND", cell: func(r row) string { return strings.Join(r.Command, " ") }},
			)
		},
	})
}
