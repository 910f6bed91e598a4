package main

import (
	"github.com/ohmcell/ohm/pkg/near"
	"github.com/spf13/cobra"
)

// noun is a command that only holds verbs: ohm node list.
func noun(use, short, long, example string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: verbArgs, RunE: needsVerb}
	c.AddCommand(verbs...)
	return c
}

// verbArgs refuses a verb that there is not. Without it, cobra would print the help
// and call that a success.
func verbArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	next := "see `" + cmd.CommandPath() + " --help`"
	if meant := near.Of(args[0], verbNames(cmd)); meant != "" {
		next = "did you mean `" + cmd.CommandPath() + " " + meant + "`?"
	}
	return failf(exitUsage, next, "there is no `%s %s`", cmd.CommandPath(), args[0])
}

// needsVerb is a call without a verb: the help, but not a success.
func needsVerb(cmd *cobra.Command, _ []string) error {
	cmd.SetOut(cmd.ErrOrStderr())
	if err := cmd.Help(); err != nil {
		return err
	}
	return refuse("`%s` needs a verb", cmd.CommandPath())
}

func verbNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// named is for positional arguments: what they are is said where they are missing.
func named(what string, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return refuse("`%s` needs %s", cmd.CommandPath(), what)
		case most >= 0 && len(args) > most:
			return refuse("`%s` takes %s, and %q is too much", cmd.CommandPath(), what, args[most])
		}
		for _, arg := range args {
			if arg == "" {
				return refuse("`%s` got an empty name", cmd.CommandPath())
			}
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return refuse("`%s` takes no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}
