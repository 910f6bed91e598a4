package packing

import (
	"bytes"
	"fmt"
)

// Size of the plot, and what part of the axes it shows: from where the contenders part.
const (
	width, height    = 720, 420
	left, right      = 60, 130
	top, bottom      = 20, 50
	leastAsked, most = 80.0, 98.0
	leastAllocated   = 78.0
	plotWidth        = width - left - right
	plotHeight       = height - top - bottom
	ticks            = 2.0 // percent
	background, ink  = "#ffffff", "#222222"
	grid             = "#dddddd"
)

// Plot draws, as SVG, how much of the GPUs each contender has allocated when so much of them
// has been asked for.
func Plot(r *Report) []byte {
	colours := []string{"#9e9e9e", "#c49c00", "#2a9d3a", "#b5651d", "#1f6fb4", "#c2185b"}
	x := func(asked float64) float64 { return left + plotWidth*(asked-leastAsked)/(most-leastAsked) }
	y := func(allocated float64) float64 {
		return top + plotHeight*(1-(allocated-leastAllocated)/(most-leastAllocated))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="%s"/>`+"\n", width, height, background)
	for v := leastAsked; v <= most; v += ticks {
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="%s"/><text x="%.1f" y="%d" text-anchor="middle" fill="%s">%.0f</text>`+"\n", x(v), top, height-bottom, grid, x(v), height-bottom+16, ink, v)
	}
	for v := leastAllocated; v <= most; v += ticks {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end" fill="%s">%.0f</text>`+"\n", left, y(v), width-right, grid, left-6, y(v)+4, ink, v)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="%s">GPUs asked for so far, %% of all</text>`+"\n", left+plotWidth/2, height-12, ink)
	fmt.Fprintf(&b, `<text x="16" y="%d" text-anchor="middle" fill="%s" transform="rotate(-90 16 %d)">GPUs allocated, %% of all</text>`+"\n", top+plotHeight/2, ink, top+plotHeight/2)
	for i, row := range r.Rows {
		colour := colours[i%len(colours)]
		path := ""
		for _, p := range row.Curve {
			if p.asked >= leastAsked && p.allocated >= leastAllocated {
				verb := "L"
				if path == "" {
					verb = "M"
				}
				path += fmt.Sprintf("%s%.1f %.1f", verb, x(p.asked), y(p.allocated))
			}
		}
		fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path, colour)
		at := top + 18*i
		fmt.Fprintf(&b, `<path d="M%d %dh20" stroke="%s" stroke-width="2"/><text x="%d" y="%d" fill="%s">%s %.2f</text>`+"\n", width-right+10, at+8, colour, width-right+34, at+12, ink, row.Policy, row.FileOrder)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
