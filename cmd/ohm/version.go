package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/ohmcell/ohm/cellstate"
	"github.com/ohmcell/ohm/pkg/ohmjson"
	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
	"github.com/spf13/cobra"
)

// version is this release of every part of ohm.
const version = "0.1.0"

// build is what this binary knows of itself.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "" if it was built outside of a checkout
	Go      string `json:"go"`
}

func thisBuild() build {
	b := build{Version: version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if b.Commit != "" {
		b.Commit += dirty
	}
	return b
}

func versionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program and of the cell",
		Long:    "Show the version of this program and, if one answers, of the cell's server.",
		Example: "  ohm version -o json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.version(cmd.Context()) },
	}
	outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (a *app) version(ctx context.Context) error {
	c := a.cell()
	cell, err := c.cell.Info(ctx, &ohmv1.InfoRequest{})
	if err != nil {
		if settings := new(fault); ctx.Err() != nil || errors.As(err, &settings) {
			return err
		}
		a.note("only this program: %v", a.explainError(ctx, err))
		cell = nil
	}
	client := thisBuild()
	return a.show(view{
		json: func() ([]byte, error) { return versionJSON(client, cell) },
		table: func(p *printer) {
			p.linef("ohm   %s", client.Version)
			if cell != nil {
				p.linef("cell  %s  %s at %s, revision %d", cell.Version, cell.Cell, a.client.Address, cell.Revision)
				storeLine(p, cellstate.Size{File: cell.StoreFileBytes, Quota: cell.StoreQuotaBytes})
			}
		},
	})
}

// storeLine says how full the cell's store is, if that is known.
func storeLine(p *printer, size cellstate.Size) {
	if size.Quota == 0 {
		return
	}
	hint := ""
	if size.Filled() >= cellstate.StoreFilling {
		hint = "; see `ohm store doctor`"
	}
	p.linef("store %s of %s, %d%%%s", resource.RoundBytes(size.File), resource.RoundBytes(size.Quota), size.Filled(), hint)
}

// versionJSON has the server's message under "cell", if there is one.
func versionJSON(client build, cell *ohmv1.InfoResponse) ([]byte, error) {
	out := struct {
		Client build           `json:"client"`
		Cell   json.RawMessage `json:"cell,omitempty"`
	}{Client: client}
	if cell != nil {
		data, err := ohmjson.Marshal(cell)
		if err != nil {
			return nil, fmt.Errorf("cell: %w", err)
		}
		out.Cell = data
	}
	return jsonText(out)
}
