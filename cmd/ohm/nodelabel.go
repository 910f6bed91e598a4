package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/ohmcell/ohm/pkg/names"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

func nodeLabelCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "label NODE KEY=VALUE... KEY-...",
		Short: "Set and remove labels of a node",
		Long: `Set and remove labels of a node, which jobs can ask for in their constraints. KEY=VALUE
sets a label, whatever it was before; KEY- removes it, if it is there. All that one call
names is changed at once, and everything else stays. A label hides an attribute of the
node with the same key.

Tasks that are on the node stay there, also when their constraints no longer hold.`,
		Example: `  ohm node label n7 zone=a disk=ssd
  ohm node label n7 zone=b disk-`,
		Args: named("the name of a node and labels: KEY=VALUE to set one, KEY- to remove it", 2, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			intent, err := labelIntent(args[0], args[1:])
			if err != nil {
				return err
			}
			return a.label(cmd.Context(), intent)
		},
	}
	outputFlag(cmd, listFormats()...)
	return cmd
}

// labelIntent reads labels to set and to remove.
func labelIntent(node string, args []string) (*ohmv1.SetIntentRequest, error) {
	intent := &ohmv1.SetIntentRequest{Node: node, Labels: map[string]string{}}
	seen := map[string]bool{}
	for _, arg := range args {
		key, value, set := strings.Cut(arg, "=")
		if !set {
			var remove bool
			if key, remove = strings.CutSuffix(arg, "-"); !remove {
				return nil, refuse("%q is not KEY=VALUE, which sets a label, or KEY-, which removes it", arg)
			}
		}
		if err := cmp.Or(names.CheckKey("label", key), names.CheckValue("label", key, value)); err != nil {
			return nil, refuse("%v", err)
		}
		if seen[key] {
			return nil, refuse("label %q is given twice", key)
		}
		seen[key] = true
		if set {
			intent.Labels[key] = value
		} else {
			intent.RemoveLabels = append(intent.RemoveLabels, key)
		}
	}
	return intent, nil
}

func (a *app) label(ctx context.Context, intent *ohmv1.SetIntentRequest) error {
	c := a.cell()
	n, err := c.nodes.SetIntent(ctx, intent)
	if err != nil {
		return a.unknownNode(ctx, c, err, intent.Node)
	}
	return a.show(view{
		json:  one(n),
		names: func() []string { return []string{n.Node} },
		table: func(p *printer) { labelTable(p, n) },
	})
}

// labelTable prints a label of the node on each line.
func labelTable(p *printer, n *ohmv1.NodeView) {
	keys := slices.Sorted(maps.Keys(n.Labels))
	if len(keys) == 0 {
		p.linef("node %s has no labels", n.Node)
		return
	}
	columns(p, keys,
		column[string]{title: "NODE", cell: func(string) string { return n.Node }},
		column[string]{title: "LABEL", cell: func(key string) string { return key }},
		column[string]{title: "VALUE", cell: func(key string) string { return n.Labels[key] }},
	)
}
