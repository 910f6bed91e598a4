package main

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ohmcell/ohm/pkg/ohmjson"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func logsCommand(a *app) *cobra.Command {
	req := &ohmv1.LogsRequest{}
	var since time.Duration
	var tail int64
	cmd := &cobra.Command{
		Use:   "logs JOB | JOB/GROUP | JOB/GROUP/INDEX",
		Short: "Print what a task wrote",
		Long: `Print what a task wrote to its standard output and standard error: of the newest
attempt unless --attempt says otherwise. A job or group is enough where it has one
task. The bytes come as the task wrote them, both streams on standard output; -o json
prints the chunks of the API, one a line.

With -f the log goes on with the attempts that follow, until there will be none, and
across a connection that breaks. A node keeps the newest part of each log, and the logs
of ended attempts for a while; where bytes are missing that were not kept for so long,
standard error says how many.`,
		Example: `  ohm logs hello/main/0
  ohm logs -f web/main/2 --stream stderr --tail 20
  ohm logs train/worker/0 --attempt 1 --since 5m`,
		Args: named("one task: JOB, JOB/GROUP or JOB/GROUP/INDEX", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "stdout", "stderr"}, req.Stream) {
				return refuse("--stream %q is not stdout or stderr", req.Stream)
			}
			if cmd.Flags().Changed("attempt") && req.Attempt < 1 {
				return refuse("--attempt %d: attempts are numbered from 1", req.Attempt)
			}
			if err := readTask(args[0], req); err != nil {
				return err
			}
			if cmd.Flags().Changed("tail") {
				if tail < 0 {
					return refuse("--tail %d: a number of lines is not negative", tail)
				}
				req.Tail = &tail
			}
			if cmd.Flags().Changed("since") {
				if since <= 0 {
					return refuse("--since %v: give how long ago, such as 5m", since)
				}
				req.Since = timestamppb.New(a.now().Add(-since))
			}
			return a.logs(cmd.Context(), req)
		},
	}
	cmd.Flags().BoolVarP(&req.Follow, "follow", "f", false, "go on until the task has ended for good")
	cmd.Flags().Int32Var(&req.Attempt, "attempt", 0, "number of the attempt (default: the newest)")
	cmd.Flags().StringVar(&req.Stream, "stream", "", "only stdout or only stderr")
	cmd.Flags().DurationVar(&since, "since", 0, "only what was written in the last so long, such as 5m, to within a second")
	cmd.Flags().Int64Var(&tail, "tail", 0, "only so many lines at the end of each stream")
	outputFlag(cmd, "text", "json")
	return cmd
}

// readTask reads JOB, JOB/GROUP or JOB/GROUP/INDEX.
func readTask(text string, req *ohmv1.LogsRequest) error {
	parts := strings.Split(text, "/")
	wrong := refuse("%q is not JOB, JOB/GROUP or JOB/GROUP/INDEX", text)
	if len(parts) > 3 || slices.Contains(parts, "") {
		return wrong
	}
	req.Job, req.AnyIndex = parts[0], true
	if len(parts) > 1 {
		req.Group = parts[1]
	}
	if len(parts) > 2 {
		n, err := strconv.ParseUint(parts[2], 10, 32)
		if err != nil || n > math.MaxInt32 {
			return wrong
		}
		req.Index, req.AnyIndex = int32(n), false
	}
	return nil
}

// A log that is followed is asked for again where its stream breaks, until nothing has come
// for so long; the first pause doubles up to the last one.
const (
	logsLost       = 2 * time.Minute
	logsFirstPause = 100 * time.Millisecond
	logsLastPause  = 5 * time.Second
)

func (a *app) logs(ctx context.Context, req *ohmv1.LogsRequest) error {
	c := a.cell()
	req.Namespace = a.namespace()
	l := &logReader{app: a, torn: map[string]bool{}}
	heard, wait := a.now(), logsFirstPause
	for {
		before := l.chunks
		err := l.read(ctx, c, req)
		if l.chunks > before {
			heard, wait = a.now(), logsFirstPause
		}
		if status.Code(err) != codes.Unavailable || !req.Follow || l.at == nil || a.now().Sub(heard) > logsLost {
			return err
		}
		if wait == logsFirstPause {
			a.note("ohm: the log broke off and is asked for again: %v", status.Convert(err).Message())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, logsLastPause)
		req.From = l.at
	}
}

// logReader prints a log and knows how far it has got.
type logReader struct {
	*app
	at     *ohmv1.LogPosition // nil: nothing has come yet
	chunks int
	torn   map[string]bool // by stream: what was printed last did not end a line
}

// read reads one answer to its end.
func (l *logReader) read(ctx context.Context, c *cell, req *ohmv1.LogsRequest) error {
	stream, err := c.jobs.Logs(ctx, req)
	if err != nil {
		return err
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return l.unknownJobs(ctx, c, err, req.Job)
		}
		l.chunks++
		l.follow(chunk)
		if err := l.write(chunk); err != nil {
			return err
		}
		if chunk.Error != "" {
			return failf(exitUnreachable, "", "the log ends here: %s", chunk.Error)
		}
	}
}

// follow notes where a reader goes on who has read the chunk.
func (l *logReader) follow(chunk *ohmv1.LogChunk) {
	if at := l.at; at == nil || at.Attempt != chunk.Attempt || at.Version != chunk.Version {
		if at != nil && l.output != "json" {
			l.note("ohm: attempt %d", chunk.Attempt)
		}
		l.at = &ohmv1.LogPosition{Version: chunk.Version, Attempt: chunk.Attempt}
	}
	switch next := chunk.Offset + int64(len(chunk.Data)); chunk.Stream {
	case "stdout":
		l.at.Stdout = next
	case "stderr":
		l.at.Stderr = next
	}
}

func (l *logReader) write(chunk *ohmv1.LogChunk) error {
	if l.output == "json" {
		data, err := ohmjson.Marshal(chunk)
		if err != nil {
			return err
		}
		return l.println(string(data))
	}
	if chunk.Note != "" {
		l.note("ohm: %s", chunk.Note)
	}
	if chunk.Dropped > 0 {
		if l.torn[chunk.Stream] { // or what follows would look as if it belonged to it
			if err := l.println(""); err != nil {
				return err
			}
		}
		l.note("ohm: %d bytes dropped: this part of %s is not kept any more", chunk.Dropped, chunk.Stream)
	}
	if n := len(chunk.Data); n > 0 {
		l.torn[chunk.Stream] = chunk.Data[n-1] != '\n'
	}
	_, err := l.stdout.Write(chunk.Data)
	return err
}
