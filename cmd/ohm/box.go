package main

import (
	"fmt"
	"strings"

	"github.com/ohmcell/ohm/pkg/resource"
	ohmv1 "github.com/ohmcell/ohm/proto/ohm/v1"
)

// shapePairs are what a group says of its tasks' shape; what it does not say is empty.
func shapePairs(g *ohmv1.Group) [][2]string {
	pairs := boxPairs("  ", g.Box)
	if g.CpuMaxMilli > 0 {
		pairs = append(pairs, [2]string{"  cpu max", resource.FormatCPU(g.CpuMaxMilli)})
	}
	pairs = append(pairs, [2]string{"  pids", number(g.Pids)})
	if g.StartDeadline != nil {
		pairs = append(pairs, [2]string{"  start deadline", span(g.StartDeadline.AsDuration())})
	}
	pairs = append(pairs, rulePairs(g)...)
	for _, c := range g.Containers {
		pairs = append(pairs, [2]string{"  container", c.Name + ", " + c.Role}, [2]string{"    command", commandLine(c.Command)}, [2]string{"    env", mapText(c.Env)})
		pairs = append(pairs, boxPairs("    ", c.Box)...)
	}
	return pairs
}

func boxPairs(indent string, b *ohmv1.Box) [][2]string {
	var mounts, flags []string
	for _, m := range b.GetMounts() {
		text := m.Target + " from " + m.Source
		if m.Source == "" {
			text = fmt.Sprintf("%s, a tmpfs of %s", m.Target, resource.FormatBytes(m.TmpfsBytes))
		}
		if m.ReadOnly {
			text += ", read-only"
		}
		mounts = append(mounts, text)
	}
	for _, f := range []struct {
		is   bool
		name string
	}{{b.GetReadOnlyRoot(), "read-only root"}, {b.GetConfined(), "confined"}} {
		if f.is {
			flags = append(flags, f.name)
		}
	}
	var caps []string
	for _, c := range b.GetDropCapabilities() {
		caps = append(caps, "-"+c)
	}
	for _, c := range b.GetAddCapabilities() {
		caps = append(caps, "+"+c)
	}
	return [][2]string{
		{indent + "image", b.GetImage()}, {indent + "user", b.GetUser()}, {indent + "dir", b.GetDir()},
		{indent + "mounts", strings.Join(mounts, "; ")}, {indent + "capabilities", strings.Join(caps, " ")}, {indent + "box", strings.Join(flags, ", ")},
	}
}
