package main

import "github.com/spf13/cobra"

// processCommands are the verbs that are parts of a cell themselves. Each has its
// file, which offers a func xCommand(a *app) *cobra.Command.
func processCommands(a *app) []*cobra.Command {
	return []*cobra.Command{devCommand(a), serverCommand(a), agentCommand(a), replayCommand(a), benchCommand(a)}
}
