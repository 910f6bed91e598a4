package main

import (
	"context"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ohmcell/ohm/pkg/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what every verb works with.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer // results; the rest
	env            []string  // as of os.Environ
	now            func() time.Time

	colour   bool // stdout is a terminal that shows colour
	terminal bool // stderr is a terminal: progress makes sense

	client     config.Client // valid from PersistentPreRunE on
	configFile string
	output     string // the format, of a verb that has -o
	started    bool   // the command line was understood
	conn       lateConn
	link       link // what is known of the connection to the cell
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, env []string) *app {
	plain := slices.ContainsFunc(env, func(e string) bool {
		return e == "TERM=dumb" || len(e) > len("NO_COLOR=") && e[:len("NO_COLOR=")] == "NO_COLOR="
	})
	a := &app{
		stdin: stdin, stdout: stdout, stderr: stderr, env: env, now: time.Now,
		colour:   isTerminal(stdout) && !plain,
		terminal: isTerminal(stderr) && !plain,
	}
	a.conn.a = a
	return a
}

// isTerminal takes every character device for a terminal; what goes to /dev/null
// hurts nobody.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// verbs are the commands of ohm, in the order of its help.
func (a *app) verbs() []*cobra.Command {
	client := []*cobra.Command{
		runCommand(a), planCommand(a), applyCommand(a), statusCommand(a), logsCommand(a), execCommand(a), stopCommand(a), explainCommand(a),
		jobCommand(a), nodeCommand(a), taskCommand(a), schedulerCommand(a), quotaCommand(a),
		conflictCommand(a), holdCommand(a), txnCommand(a), auditCommand(a), storeCommand(a), versionCommand(a),
	}
	for _, c := range client {
		c.GroupID = "client"
	}
	cell := processCommands(a)
	for _, c := range cell {
		c.GroupID = "cell"
	}
	return slices.Concat(client, cell, []*cobra.Command{docsCommand(a), exitCodesTopic()})
}

func newRoot(a *app, verbs []*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "ohm",
		Short: "Run jobs on a cell",
		Long: `ohm runs jobs on a cell: nodes under one shared state, on which several
schedulers place tasks at the same time. The same binary is the cell itself.

Results are on standard output, everything else on standard error. The topic
exit-codes of the help lists the exit codes; ohm completion prints completions for
your shell.`,
		Example: `  ohm dev                      # a whole cell on this machine
  ohm run hello.yaml --wait    # in another terminal
  ohm status`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args:              verbArgs,
		RunE:              needsVerb,
	}
	root.AddGroup(&cobra.Group{ID: "client", Title: "Use a cell:"}, &cobra.Group{ID: "cell", Title: "Be a cell, or a part of one:"})
	root.AddCommand(verbs...)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	a.client.Flags(flags)
	flags.StringVar(&a.configFile, "config", "", "configuration file [OHM_CONFIG]; if not given, ohm/config.yaml below $XDG_CONFIG_HOME or ~/.config")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := config.Apply(cmd.Flags(), a.env, a.configFile, settings(root)); err != nil {
			return refuse("%v", err)
		}
		a.started = true
		return a.setOutput(cmd)
	}
	return root
}

// settings are the names of the settings of all commands.
func settings(root *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) {
		if config.IsSetting(f) {
			names = append(names, f.Name)
		}
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.PersistentFlags().VisitAll(add)
		c.Flags().VisitAll(add)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	slices.Sort(names)
	return slices.Compact(names)
}

func (a *app) run(ctx context.Context, args []string) exitCode {
	defer a.conn.close()
	root := newRoot(a, a.verbs())
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	return a.report(ctx, cmd, err)
}
