package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// exitCode is what a call of ohm says to a script.
type exitCode int

// The exit codes. A task's own exit code is never among them: it is in the JSON.
const (
	exitDone        exitCode = 0
	exitFailed      exitCode = 1
	exitUsage       exitCode = 2
	exitUnreachable exitCode = 3
	exitNotFound    exitCode = 4
	exitConflict    exitCode = 5
	exitTimedOut    exitCode = 6
	exitCancelled   exitCode = 7
	exitRolledBack  exitCode = 8
)

// exitTable is the one table of exit codes: what each means, and which answers of a
// server lead to it.
func exitTable() []exitRow {
	return []exitRow{
		{exitDone, "done; with --wait, the job succeeded or runs", []codes.Code{codes.OK}},
		{exitFailed, "the job failed; audit found violations, the doctor something wrong, or a check a broken rule; ohm itself failed", nil},
		{exitUsage, "not understood or refused: the command line, a job file, a request", []codes.Code{codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied, codes.ResourceExhausted}},
		{exitUnreachable, "the cell cannot be reached, or could not answer", []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Unknown, codes.DataLoss}},
		{exitNotFound, "there is no such job, task, node, quota or transaction", []codes.Code{codes.NotFound}},
		{exitConflict, "a conflict or a precondition that does not hold", []codes.Code{codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition}},
		{exitTimedOut, "--timeout passed before the end of --wait; the job goes on", nil},
		{exitCancelled, "cancelled by Ctrl-C or SIGTERM; or the job was stopped while it was waited for", []codes.Code{codes.Canceled}},
		{exitRolledBack, "the update was rolled back: the job is what it was before", nil},
	}
}

type exitRow struct {
	code    exitCode
	meaning string
	answers []codes.Code
}

func exitCodeOf(c codes.Code) exitCode {
	for _, row := range exitTable() {
		for _, answer := range row.answers {
			if answer == c {
				return row.code
			}
		}
	}
	return exitUnreachable
}

func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes of every verb:\n")
	for _, row := range exitTable() {
		fmt.Fprintf(&b, "\n  %d  %s", row.code, row.meaning)
	}
	b.WriteString("\n\nA task's own exit code is in the JSON of `ohm task list`, and of a job that has failed among\nwhat `ohm run --wait -o json` prints. `ohm exec` alone ends with the exit\ncode of the program that it has run, and with 125 where there is none.")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}

// fault is an error as its reader sees it: what is wrong and where, and what to do
// next.
type fault struct {
	code exitCode
	what string
	next string // may be empty
}

func (f *fault) Error() string {
	if f.next == "" {
		return f.what
	}
	return f.what + "; " + f.next
}

func failf(code exitCode, next, what string, args ...any) *fault {
	return &fault{code: code, what: fmt.Sprintf(what, args...), next: next}
}

// refuse is for a command line, file or setting that cannot be used.
func refuse(what string, args ...any) *fault { return failf(exitUsage, "", what, args...) }

// report prints err for people and returns the exit code that goes with it.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) exitCode {
	if err == nil {
		return exitDone
	}
	f := a.explainError(ctx, err)
	if !a.started && f.next == "" && cmd != nil {
		f = &fault{f.code, f.what, fmt.Sprintf("see `%s --help`", cmd.CommandPath())}
	}
	if f.what != "" { // else the program in a task has said what there is to say
		fmt.Fprintf(a.stderr, "ohm: %s\n", plainText(f.Error()))
	}
	return f.code
}

// explainError finds the fault behind err: one of ours, a server's answer, or a
// command line that was not understood.
func (a *app) explainError(ctx context.Context, err error) *fault {
	var f *fault
	switch answer, isAnswer := status.FromError(err); {
	case errors.As(err, &f):
		return f
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || isAnswer && answer.Code() == codes.Canceled):
		return failf(exitCancelled, "", "cancelled")
	case isAnswer:
		return a.explainAnswer(answer)
	case !a.started:
		return refuse("%v", err)
	}
	return failf(exitFailed, "", "%v", err)
}

func (a *app) explainAnswer(s *status.Status) *fault {
	code, message, address := exitCodeOf(s.Code()), s.Message(), a.client.Address
	if strings.HasPrefix(message, "unexpected HTTP status code") {
		// gRPC turns a web server's answers into codes that a cell never gave.
		return failf(exitUnreachable, "check --address", "what answers at %s is no cell", address)
	}
	switch s.Code() {
	case codes.Unavailable:
		if !a.link.answered.Load() {
			return failf(code, "start one with `ohm dev`, or give --address", "no cell answers at %s (%s)", address, dialReason(message))
		}
		return failf(code, "try again", "the cell at %s could not answer: %s", address, dialReason(message))
	case codes.DeadlineExceeded:
		return failf(code, "try again", "the cell at %s did not answer in time", address)
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return failf(code, "its log says more", "the cell at %s failed: %s", address, message)
	case codes.Unimplemented:
		return failf(code, "`ohm version` shows both releases", "the cell at %s does not know this request", address)
	case codes.Unauthenticated, codes.PermissionDenied:
		return failf(code, "give --token-file", "the cell at %s refuses this caller: %s", address, message)
	}
	return failf(code, "", "%s", message)
}

// dialReason cuts the frame off a transport's message.
func dialReason(message string) string {
	switch {
	case strings.Contains(message, "connection refused"):
		return "connection refused"
	case strings.Contains(message, "produced zero addresses"), strings.Contains(message, "no such host"):
		return "nobody knows that name"
	case strings.Contains(message, "reading server preface"):
		return "what listens there does not speak gRPC"
	}
	message = strings.TrimPrefix(message, "last connection error: ")
	message = strings.TrimPrefix(message, `connection error: desc = "`)
	message = strings.TrimPrefix(message, "transport: ")
	return strings.TrimSuffix(message, `"`)
}
