package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printer collects what one verb prints for people: lines and tables.
type printer struct {
	app  *app
	wide bool
	out  strings.Builder
}

func (p *printer) flush() error {
	_, err := p.app.stdout.Write([]byte(p.out.String()))
	return err
}

func (p *printer) linef(format string, args ...any) {
	p.out.WriteString(plainText(fmt.Sprintf(format, args...)) + "\n")
}

// heading separates parts of an answer.
func (p *printer) heading(format string, args ...any) {
	if p.out.Len() > 0 {
		p.out.WriteString("\n")
	}
	p.linef(format, args...)
}

// column is one column of a table over rows of type R.
type column[R any] struct {
	title string
	cell  func(R) string
	skip  bool // leave the column out
}

// columns prints rows as a table with aligned columns. An empty cell shows as "-",
// so that columns can be counted by tools; at the end of a line as nothing.
func columns[R any](p *printer, rows []R, all ...column[R]) {
	var shown []column[R]
	var titles []string
	for _, c := range all {
		if !c.skip {
			shown, titles = append(shown, c), append(titles, c.title)
		}
	}
	lines := [][]string{titles}
	for _, row := range rows {
		line := make([]string, len(shown))
		for i, c := range shown {
			line[i] = strings.ReplaceAll(plainText(c.cell(row)), "\n", " ")
			if line[i] == "" && i < len(shown)-1 {
				line[i] = "-"
			}
		}
		lines = append(lines, line)
	}
	p.align(lines, titles)
}

// pairs prints a name and a value a line; values that are empty are left out.
func (p *printer) pairs(pairs ...[2]string) {
	var lines [][]string
	for _, pair := range pairs {
		if pair[1] != "" {
			lines = append(lines, []string{pair[0], strings.ReplaceAll(plainText(pair[1]), "\n", " ")})
		}
	}
	p.align(lines, nil)
}

func (p *printer) align(lines [][]string, titles []string) {
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if p.app.colour && n > 0 && titles != nil && titles[i] == "STATE" {
				cell = coloured(cell)
			}
			b.WriteString(cell + pad + "  ")
		}
		p.out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	}
}

// coloured marks a state: green goes well, red does not, yellow is on its way.
func coloured(state string) string {
	colour := "33"
	switch state {
	case "Running", "Succeeded", "Ready", "Live":
		colour = "32"
	case "Failed", "Lost", "NotSeen":
		colour = "31"
	case "Stopped", "Skipped", "Drained", "Ineligible":
		return state
	}
	return "\x1b[" + colour + "m" + state + "\x1b[0m"
}

// plainText replaces control characters other than the newline: what a task or a
// server says must not steer the terminal.
func plainText(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' {
			return ' '
		}
		return c
	}, s)
}
