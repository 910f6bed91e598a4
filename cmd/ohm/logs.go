package main

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ohmcell/ohm/pkg/ohmjson"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func logsCommand(a *app) *cobra.Command {
	req := &ohmv1.LogsRequest{}
	cmd := &cobra.Command{
		Use:   "logs JOB | JOB/GROUP | JOB/GROUP/INDEX",
		Short: "Print what a task wrote",
		Long: `Print what a task wrote to its standard output and standard error: of the newest
attempt unless --attempt says otherwise. A job or group is enough where it has one
task. The bytes come as the task wrote them, both streams on standard output; -o json
prints the chunks of the API, one a line.`,
		Example: `  ohm logs hello/main/0
  ohm logs -f web/main/2 --stream stderr
  ohm logs train/worker/0 --attempt 1`,
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
			return a.logs(cmd.Context(), req)
		},
	}
	cmd.Flags().BoolVarP(&req.Follow, "follow", "f", false, "go on until the task has ended")
	cmd.Flags().Int32Var(&req.Attempt, "attempt", 0, "number of the attempt (default: the newest)")
	cmd.Flags().StringVar(&req.Stream, "stream", "", "only stdout or only stderr")
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

func (a *app) logs(ctx context.Context, req *ohmv1.LogsRequest) error {
	c, err := a.dial()
	if err != nil {
		return err
	}
	defer c.close()
	req.Namespace = a.namespace()
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
			return a.unknownJobs(ctx, c, err, req.Job)
		}
		if err := a.writeChunk(chunk); err != nil {
			return err
		}
		if chunk.Error != "" {
			return failf(exitUnreachable, "", "the log ends here: %s", chunk.Error)
		}
	}
}

func (a *app) writeChunk(chunk *ohmv1.LogChunk) error {
	if a.output == "json" {
		data, err := ohmjson.Marshal(chunk)
		if err != nil {
			return err
		}
		return a.println(string(data))
	}
	_, err := a.stdout.Write(chunk.Data)
	return err
}
