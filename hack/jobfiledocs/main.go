// Command jobfiledocs prints docs/job-file.md: what is written by hand in page.md, with
// the tables of the fields, which come from the very table that the parser reads by.
package main

import (
	_ "embed"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/ohmcell/ohm/pkg/jobspec"
)

//go:embed page.md
var page string

func main() {
	log.SetFlags(0)
	text := strings.Replace(page, "<!-- fields -->\n", jobspec.Reference(), 1)
	if text == page {
		log.Fatal("page.md has no line <!-- fields --> to put the fields at")
	}
	if _, err := fmt.Fprint(os.Stdout, text); err != nil {
		log.Fatal(err)
	}
}
