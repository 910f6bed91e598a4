package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// docsCommand writes the CLI reference, from the very commands that it describes.
func docsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "Write the CLI reference",
		Long:   "Write the CLI reference, a Markdown page for each command, and remove the pages of commands that are gone.",
		Hidden: true,
		Args:   named("a directory", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeDocs(cmd.Root(), args[0], a.defaultDataDir())
		},
	}
}

// writeDocs writes the pages. dataDir, a default that depends on who asks, is put into words.
func writeDocs(root *cobra.Command, dir, dataDir string) error {
	old, err := filepath.Glob(filepath.Join(dir, "ohm*.md"))
	if err != nil {
		return err
	}
	for _, page := range old {
		if err := os.Remove(page); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err = doc.GenMarkdownTreeCustom(root, dir,
		func(string) string { return "" },
		func(page string) string { return page })
	if err != nil {
		return err
	}
	// A topic of the help is no command, so it gets no page from cobra.
	topic := exitCodesTopic()
	text := "## ohm help " + topic.Name() + "\n\n" + topic.Short + "\n\n```\n" + strings.TrimSpace(topic.Long) + "\n```\n"
	if err := os.WriteFile(filepath.Join(dir, "ohm_exit-codes.md"), []byte(text), 0o644); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "ohm*.md"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		plain := strings.ReplaceAll(string(text), fmt.Sprintf("(default %q)", dataDir), "(default /var/lib/ohm for root, else ~/.local/state/ohm)")
		if err := os.WriteFile(page, []byte(plain), 0o644); err != nil {
			return err
		}
	}
	return nil
}
